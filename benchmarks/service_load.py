"""Load on a worker: closed-loop to find what it can do, open-loop to see what it does."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.service_jobs import arrivals_s, send_open_loop
from benchmarks.service_outcomes import BUDGET_MS, Outcome, outcomes
from benchmarks.service_stand import NotMeasured, Program, Stand
from benchmarks.service_topics import Counted, Everything
from pipeline.bus.topics import Topics
from pipeline.client import job_message
from schemas.job import Lane, VideoJob

LOADING_S = 180.0
SETTLE_S = BUDGET_MS / 1e3 + 2.0
"""After the last job: by then whatever was to come in time has come."""

POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the wall clock, in ms since 1970."""

    began_ms: float
    ended_ms: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.ended_ms - self.began_ms) / 1e3

    def holds(self, outcome: Outcome) -> bool:
        """Whether the job was sent within it."""
        return self.began_ms <= outcome.sent_ms < self.ended_ms


class Load:
    """Sends jobs to whoever works on ``topics``. The jobs are taken from one endless row."""

    def __init__(self, stand: Stand, topics: Topics, jobs: Iterator[VideoJob]) -> None:
        self._stand = stand
        self._topics = topics
        self._jobs = jobs

    def warm(self, count: int, *, program: Program) -> None:
        """Wait until ``count`` jobs are answered, one after another. Raises ``NotMeasured``."""
        with Counted(self._stand.broker.bootstrap, self._topics.results) as results:
            before = results.now()
            for number in range(1, count + 1):
                send_open_loop([next(self._jobs)], [0.0], bus=self._stand.bus, topics=self._topics)
                results.wait(before + number, within_s=LOADING_S, by=program)

    def closed(self, *, seconds: float, under_way: int, program: Program) -> Span:
        """Keep ``under_way`` jobs without an answer."""
        consumer = self._stand.bus.consumer(group_id=f"{self._topics.prefix}closed", client_id="loop", from_end=True)
        producer = self._stand.bus.producer(client_id="loop")
        everything, sent, answered = Everything(), 0, 0
        try:
            consumer.subscribe([self._topics.results], everything)
            while not everything.come:
                consumer.poll(POLL_S)
            consumer.lag()  # asks where "now" is, so that nothing from here on is missed
            began_s = time.time()
            while time.time() < began_s + seconds:
                while sent < answered + under_way:
                    producer.send(job_message(next(self._jobs), topics=self._topics, now=datetime.now(UTC)))
                    sent += 1
                answered += len(consumer.poll(POLL_S))
                if not program.running:
                    raise NotMeasured(f"it has ended: {program.last_words()}")
            return Span(began_s * 1e3, time.time() * 1e3)
        finally:
            producer.close()
            consumer.close()
            time.sleep(SETTLE_S)

    def open(self, *, rate: float, seconds: float, seed: str) -> Span:
        """Send ``rate`` jobs a second, whatever becomes of them."""
        began_s = time.time()
        moments_s = arrivals_s(rate=rate, seconds=seconds, seed=seed)
        send_open_loop(self._jobs, moments_s, bus=self._stand.bus, topics=self._topics)
        time.sleep(max(0.0, began_s + seconds - time.time()))
        time.sleep(SETTLE_S)
        return Span(began_s * 1e3, (began_s + seconds) * 1e3)

    def outcomes(self, span: Span) -> list[Outcome]:
        """Return what became of the realtime jobs of ``span``."""
        found = outcomes(self._stand.bus, self._topics)
        return [outcome for outcome in found if outcome.lane is Lane.REALTIME and span.holds(outcome)]

    def answered(self, lane: Lane, span: Span) -> int:
        """Return how many jobs of ``lane``, whenever sent, were answered within ``span``."""
        jobs = (job for job in outcomes(self._stand.bus, self._topics) if job.lane is lane and job.replies)
        return sum(span.began_ms <= job.replies[-1].at_ms < span.ended_ms for job in jobs)

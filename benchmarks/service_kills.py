"""Part "kills": workers are killed mid-job under load: how soon others take over, what is lost, what comes twice."""

import math
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.llm_findings import Findings, Progress, at_most
from benchmarks.service_jobs import arrivals_s, made_up_jobs, send_open_loop
from benchmarks.service_outcomes import Outcome, outcomes
from benchmarks.service_stand import Program, Stand
from benchmarks.service_topics import Counted
from benchmarks.tables import Table
from pipeline.bus.base import Partition
from pipeline.bus.kafka_consumer import SESSION_TIMEOUT_MS
from pipeline.bus.topics import Topics

WORKERS = 2
JOB_MS = 50
RATE = 100.0
"""Jobs a second: five under way on average, and each of the twelve partitions gets one every 0.12 s."""

SETTINGS = {"HALFSECOND_WORKER_PLACES": "16", "HALFSECOND_HAND_OVER_REJECTED": "false"}
"""Handed-over jobs have two answers by design; here each is to have one."""

STEADY_S = 4.0
"""Until a new worker has its partitions and answers."""

TAKEN_OVER_S = SESSION_TIMEOUT_MS / 1e3 + 4.0
LIMIT_S = SESSION_TIMEOUT_MS / 1e3 + 2.0
BEFORE_MS = 1_500
"""Who answered a partition's jobs in that time before the kill had it."""

LAST_ANSWERS_S = 15.0


@dataclass(frozen=True, slots=True)
class Kill:
    """When (ms since 1970), and of whom: the end of its worker's name."""

    at_ms: float
    pid: int


def measure(stand: Stand, *, kills: int, progress: Progress) -> Findings:
    """Kill one of two workers ``kills`` times, at random moments, and start another in its place."""
    topics = stand.fresh_topics()
    done = _kill_under_load(stand, topics, kills=kills, progress=progress)
    jobs = outcomes(stand.bus, topics)
    waits_s = [max(takeovers_s(jobs, kill), default=math.inf) for kill in done]
    lost = sum(not job.replies for job in jobs)
    twice = sum(len(job.replies) > 1 for job in jobs)
    table = Table(
        f"{len(done)} kills, {RATE:.0f} jobs/s of {JOB_MS} ms on {WORKERS} workers",
        ("jobs", "lost", "answered twice", "takeover of the slowest partition, median s", "worst s"),
        [(str(len(jobs)), str(lost), str(twice), f"{median(waits_s):.2f}", f"{max(waits_s):.2f}")],
    )
    return Findings(
        [table],
        [
            at_most("kill -9 to the first answer of each partition taken over", LIMIT_S, max(waits_s), unit=" s"),
            at_most(f"lost over {len(done)} kills", 0, lost),
            at_most(f"visible duplicates over {len(done)} kills", 0, twice),
        ],
    )


def _kill_under_load(stand: Stand, topics: Topics, *, kills: int, progress: Progress) -> list[Kill]:
    chance, done = random.Random("kills"), list[Kill]()
    workers = [_start(stand, topics) for _ in range(WORKERS)]
    sender = _Sender(stand, topics, seconds=(kills + 1) * (STEADY_S + 1 + TAKEN_OVER_S))
    try:
        for number in range(kills):
            progress(f"kill {number + 1} of {kills}")
            time.sleep(STEADY_S + chance.random())
            victim = workers.pop(chance.randrange(len(workers)))
            done.append(Kill(time.time() * 1e3, victim.pid))
            victim.kill()
            time.sleep(TAKEN_OVER_S)
            workers.append(_start(stand, topics))
        sent = sender.stop()
        with Counted(stand.broker.bootstrap, topics.results) as results:
            give_up_s = time.monotonic() + LAST_ANSWERS_S
            while results.now() < sent and time.monotonic() < give_up_s:
                time.sleep(0.2)
    finally:
        sender.stop()
        for worker in workers:
            worker.end()
    return done


def _start(stand: Stand, topics: Topics) -> Program:
    return stand.start((sys.executable, "-m", "benchmarks.service_worker", str(JOB_MS)), topics, **SETTINGS)


class _Sender:
    """Sends jobs on a thread until it is stopped, or for ``seconds``."""

    def __init__(self, stand: Stand, topics: Topics, *, seconds: float) -> None:
        self._stop = threading.Event()
        self._sent = 0
        self._thread = threading.Thread(target=self._run, args=(stand, topics, seconds), daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Return how many were sent."""
        self._stop.set()
        self._thread.join()
        return self._sent

    def _run(self, stand: Stand, topics: Topics, seconds: float) -> None:
        moments_s = arrivals_s(rate=RATE, seconds=seconds, seed="kills")
        jobs = made_up_jobs(int(2 * RATE * seconds), budget_ms=500)
        going_on = (job for job in iter(lambda: None if self._stop.is_set() else next(jobs), None))
        self._sent = send_open_loop(going_on, moments_s, bus=stand.bus, topics=topics)


def takeovers_s(jobs: Sequence[Outcome], kill: Kill) -> list[float]:
    """Return, for each partition that the killed worker had, how long until somebody else answered a job of it."""
    theirs = {job.partition for job in jobs if _was_answered_by(job, kill)}
    return [_first_answer_ms(jobs, partition, kill) / 1e3 for partition in theirs]


def _was_answered_by(job: Outcome, kill: Kill) -> bool:
    return any(
        reply.worker.endswith(f"-{kill.pid}") and kill.at_ms - BEFORE_MS <= reply.at_ms <= kill.at_ms
        for reply in job.replies
    )


def _first_answer_ms(jobs: Sequence[Outcome], partition: Partition, kill: Kill) -> float:
    return min(
        (
            reply.at_ms - kill.at_ms
            for job in jobs
            if job.partition == partition
            for reply in job.replies
            if reply.at_ms > kill.at_ms and not reply.worker.endswith(f"-{kill.pid}")
        ),
        default=math.inf,
    )

"""Counts every job of a test: what was accepted has exactly one answer, whatever broke meanwhile.

A record is known by its trace (``traceparent``), which all messages about it carry on. So two records of the same job
are two things to answer. A realtime job that was turned away and handed over to the backfill lane has two answers.
"""

import base64
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

import kafka
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from pipeline.bus.base import Headers, Outgoing, Partition, Record
from pipeline.bus.headers import header, parse_traceparent
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from pipeline.client import job_message
from schemas.errors import ErrorCode
from schemas.events import DeadLetter, SlaEvent
from schemas.job import Lane, VideoJob
from schemas.result import FusedResult, ResultStatus

SHOWN = 5
"""Histories of each kind in a failure's text. The first tells as much as the thousandth."""

STORED_WITHIN_S = 40.0
"""Longer than the producer's own patience with a broker that is away."""

SETTLE_S = 0.3
"""After all is answered and committed: a second answer would be right behind the first."""


class Answer(NamedTuple):
    """A result, as far as it matters here."""

    status: ResultStatus
    code: ErrorCode | None
    retryable: bool

    @property
    def turns_away(self) -> bool:
        """Whether there was no answer in time, and there may be one later."""
        return self.status is ResultStatus.EXPIRED or (self.status is ResultStatus.REJECTED and self.retryable)


@dataclass(slots=True)
class Case:
    """What was sent once, and all that became of it. ``accepted`` is None until the broker has taken or refused it.

    ``lane`` is None of a message that is no job: it ends as a dead letter.
    """

    name: str
    lane: Lane | None
    accepted: bool | None = True
    answers: list[Answer] = field(default_factory=list)
    counted: Counter[Lane] = field(default_factory=Counter)
    """Lines in the account (``video.sla``)."""
    handed_over: int = 0
    dead_letters: list[str] = field(default_factory=list)
    """Their kinds of error."""
    history: list[tuple[int, str]] = field(default_factory=list)

    def remember(self, record: Record, what: str) -> None:
        """Add a line to the history."""
        worker = (header(record.headers, "ce_source") or "?").rsplit("/", 1)[-1]
        place = f"{record.partition.topic}-{record.partition.number}@{record.offset}"
        self.history.append((record.timestamp_ms, f"{what} by {worker} ({place})"))

    def lacks(self, *, hand_over: bool) -> str | None:
        """Return what is missing, None when nothing is."""
        if self.lane is None:
            return None if self.dead_letters else "no dead letter"
        if not self.answers:
            return None if self.dead_letters else "no answer"
        if hand_over and self._turned_away and not self.handed_over:
            return "turned away and not handed over"
        if len(self.answers) < 1 + self.handed_over:
            return "handed over and not answered"
        return None

    @property
    def _turned_away(self) -> bool:
        return self.lane is Lane.REALTIME and any(answer.turns_away for answer in self.answers)

    @property
    def excess(self) -> str | None:
        """What is there more than once."""
        if self.handed_over > 1:
            return f"handed over {self.handed_over} times"
        if len(self.answers) > 1 + self.handed_over:
            return f"{len(self.answers)} results" + (", handed over once" if self.handed_over else "")
        return f"{len(self.dead_letters)} dead letters" if len(self.dead_letters) > 1 else None

    @property
    def uncounted(self) -> frozenset[Lane]:
        """Lanes in which it was answered without a line in the account."""
        if self.lane is None or not self.answers:
            return frozenset()
        return frozenset({self.lane} | ({Lane.BACKFILL} if self.handed_over else set())) - self.counted.keys()

    @property
    def strangeness(self) -> str | None:
        """What should not be there, or is missing beside the answer."""
        if self.lane is None:
            return "a result to what is no job" if self.answers else None
        if uncounted := self.uncounted:
            return f"answered, but not in the account: {', '.join(sorted(uncounted))}"
        return None

    def told(self, fault: str) -> str:
        """Return the history, for people."""
        events = sorted(self.history)
        began_ms = events[0][0] if events else 0
        lines = [f"  {self.name} ({self.lane or 'no job'}): {fault}"]
        return "\n".join(lines + [f"    +{at_ms - began_ms:6d} ms {what}" for at_ms, what in events])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found. Each of the last four holds histories, one of each record that is not right."""

    accepted: int
    answers: Counter[ResultStatus]
    codes: Counter[ErrorCode]
    handed_over: int
    dead_letters: Counter[str]
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    strange: tuple[str, ...]
    uncommitted: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether every accepted record has exactly one answer and one line in the account, and is done with."""
        return not (self.lost or self.doubled or self.strange or self.uncommitted)

    def require_clean(self) -> Self:
        """Return itself. Raises ``AssertionError`` that tells the histories of what went wrong."""
        if not self.clean:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        answers = ", ".join(f"{count} {status}" for status, count in sorted(self.answers.items())) or "no results"
        lines = [
            f"{self.accepted} accepted: {answers}; {self.handed_over} handed over; {self.dead_letters.total()} dead"
        ]
        for name in ("lost", "doubled", "strange", "uncommitted"):
            histories: tuple[str, ...] = getattr(self, name)
            lines.append(f"{name}: {len(histories)}")
            lines += histories[:SHOWN]
        return "\n".join(lines)


class Books:
    """What was asked and what was answered. No I/O; thread-safe. ``note`` takes the topics' records in any order."""

    def __init__(self, topics: Topics, *, hand_over: bool = True) -> None:
        self._topics = topics
        self._hand_over = hand_over
        self._cases: dict[str, Case] = {}
        """By trace id; a message without one by its key."""
        self._nobodys: list[str] = []
        self._lock = threading.Lock()

    def expect(self, name: str, lane: Lane | None, *, trace_id: str, accepted: bool | None = True) -> Case:
        """Note that a job is sent. Of what is no job: ``lane`` None, and its key for the trace."""
        with self._lock:
            case = self._cases[trace_id] = Case(name, lane, accepted)
            return case

    def note(self, record: Record) -> None:
        """Take a record of any topic."""
        with self._lock:
            case = self._case_of(record)
            if case is None:
                self._nobodys.append(f"  {record.partition.topic}-{record.partition.number}@{record.offset}")
            elif record.value is not None:
                self._enter(case, record, record.value)

    @property
    def open(self) -> int:
        """How many records lack an answer or its line in the account, or are not known to be accepted."""
        with self._lock:
            return sum(case.accepted is not False and self._is_open(case) for case in self._cases.values())

    def _is_open(self, case: Case) -> bool:
        unanswered = case.accepted is None or case.lacks(hand_over=self._hand_over) is not None
        return unanswered or bool(case.uncounted)

    def answers_to(self, job_id: str) -> list[Answer]:
        """Return what a job was answered, once all of it has come; nothing before."""
        with self._lock:
            cases = [case for case in self._cases.values() if case.name == job_id]
            lacking = any(case.lacks(hand_over=self._hand_over) for case in cases)
            return [] if lacking else [answer for case in cases for answer in case.answers]

    @property
    def answered(self) -> int:
        """How many results have come."""
        with self._lock:
            return sum(len(case.answers) for case in self._cases.values())

    def verdict(self) -> Verdict:
        """Return what is known by now."""
        with self._lock:
            cases = list(self._cases.values())
            accepted = [case for case in cases if case.accepted]
            lacking = ((case, case.lacks(hand_over=self._hand_over)) for case in accepted)
            strange = [case.told(fault) for case in cases if (fault := case.strangeness) is not None]
            return Verdict(
                accepted=len(accepted),
                answers=Counter(answer.status for case in cases for answer in case.answers),
                codes=Counter(answer.code for case in cases for answer in case.answers if answer.code is not None),
                handed_over=sum(case.handed_over for case in cases),
                dead_letters=Counter(kind for case in cases for kind in case.dead_letters),
                lost=tuple(case.told(fault) for case, fault in lacking if fault is not None),
                doubled=tuple(case.told(fault) for case in cases if (fault := case.excess) is not None),
                strange=(*strange, *(f"{place}: about nothing that was sent" for place in self._nobodys)),
            )

    def _case_of(self, record: Record) -> Case | None:
        by_trace = self._cases.get(trace_id_of(record.headers) or "")
        if by_trace is None and record.partition.topic == self._topics.dead_letters and record.value is not None:
            original = DeadLetter.model_validate_json(record.value).original
            return self._cases.get(base64.b64decode(original.key_base64 or "").decode("utf-8", errors="replace"))
        if by_trace is None and record.partition.topic in map(self._topics.of_lane, Lane):
            return self._cases.get((record.key or b"").decode("utf-8", errors="replace"))
        return by_trace

    def _enter(self, case: Case, record: Record, value: bytes) -> None:
        match record.partition.topic:
            case self._topics.results:
                result = FusedResult.model_validate_json(value)
                error = result.error
                code, retryable = (None, False) if error is None else (error.code, error.retryable)
                case.answers.append(Answer(result.status, code, retryable))
                case.remember(record, f"result {result.status} {code or ''}".strip())
            case self._topics.dead_letters:
                case.dead_letters.append(DeadLetter.model_validate_json(value).error_class)
                case.remember(record, f"dead letter {case.dead_letters[-1]}")
            case self._topics.sla:
                event = SlaEvent.model_validate_json(value)
                case.counted[event.lane] += 1
                case.remember(record, f"account: {event.lane} {event.status}")
            case self._topics.backfill if case.lane is Lane.REALTIME:
                case.handed_over += 1
                case.remember(record, "handed over")


def trace_id_of(headers: Headers) -> str | None:
    """Return the trace that a message belongs to."""
    trace = parse_traceparent(header(headers, "traceparent") or "")
    return None if trace is None else trace.trace_id


class Checker:
    """Sends jobs over a real broker, reads everything that becomes of them, and says whether it is right.

    The topics must be fresh: they are read from their beginning. ``group_id``: of the workers.
    """

    def __init__(self, bootstrap: str, topics: Topics, *, group_id: str, hand_over: bool = True) -> None:
        self.books = Books(topics, hand_over=hand_over)
        self._topics = topics
        connection = KafkaConnection(bootstrap)
        self._producer = kafka.KafkaProducer(
            **connection.options(),
            client_id="checker",
            acks="all",
            allow_auto_create_topics=False,
            delivery_timeout_ms=int(STORED_WITHIN_S * 1000),
            metrics_enabled=False,
        )
        self._consumer = kafka.KafkaConsumer(
            **connection.options(),
            group_id=group_id,  # to ask what it has committed; who assigns by hand does not join
            client_id="checker",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            metrics_enabled=False,
        )
        parts = [TopicPartition(topic.name, number) for topic in topics.all() for number in range(topic.partitions)]
        self._consumer.assign(parts)
        self._ends: dict[Partition, int] = {}

    def close(self) -> None:
        """Disconnect."""
        self._producer.close()
        self._consumer.close(autocommit=False)

    def submit(self, *jobs: VideoJob, clock_ahead_s: float = 0.0) -> None:
        """Send ``jobs``, without waiting for the broker. ``clock_ahead_s``: of the producer, if its time is taken."""
        for job in jobs:
            message = job_message(job, topics=self._topics, now=datetime.now(UTC))
            trace_id = trace_id_of(message.headers)
            assert trace_id is not None
            case = self.books.expect(job.job_id, job.lane, trace_id=trace_id, accepted=None)
            self._send(message, case, clock_ahead_s)

    def send_poison(self, message: Outgoing) -> None:
        """Send what is no job. It has no ``traceparent``, and a key that is one of a kind."""
        key = (message.key or b"").decode()
        self._send(message, self.books.expect(key, None, trace_id=key, accepted=None))

    def _send(self, message: Outgoing, case: Case, clock_ahead_s: float = 0.0) -> None:
        future = self._producer.send(
            message.topic,
            key=message.key,
            value=message.value,
            headers=list(message.headers),
            timestamp_ms=int((time.time() + clock_ahead_s) * 1000),
        )
        future.add_callback(lambda _: setattr(case, "accepted", True))
        future.add_errback(lambda _: setattr(case, "accepted", False))

    @contextmanager
    def load(self, jobs: Sequence[VideoJob], *, per_s: float) -> Iterator[None]:
        """Send ``jobs`` beside what the context does; leaving it waits until all are stored, or given up."""

        def send() -> None:
            for index, job in enumerate(jobs):
                time.sleep(max(0.0, began_s + index / per_s - time.monotonic()))
                self.submit(job)

        began_s = time.monotonic()
        sender = threading.Thread(target=send, name="load")
        sender.start()
        try:
            yield
        finally:
            sender.join()
            self._producer.flush(timeout=STORED_WITHIN_S)

    def verdict(self, *, within_s: float = 60.0) -> Verdict:
        """Read until every record is answered, accounted for and committed, or time is up; return what was found."""
        self._producer.flush(timeout=STORED_WITHIN_S)
        give_up_s = time.monotonic() + within_s
        while time.monotonic() < give_up_s:
            self._read()
            if self.books.open == 0 and not self._uncommitted():
                break
        settled_s = time.monotonic() + SETTLE_S
        while time.monotonic() < settled_s:
            self._read()
        return replace(self.books.verdict(), uncommitted=tuple(self._uncommitted()))

    def wait_for_answers(self, count: int, *, within_s: float = 30.0) -> None:
        """Read until ``count`` results have come. Raises ``AssertionError`` when they do not."""
        give_up_s = time.monotonic() + within_s
        while self.books.answered < count:
            assert time.monotonic() < give_up_s, f"{count} answers did not come\n{self.books.verdict()}"
            self._read()

    def answers_to(self, job: VideoJob, *, within_s: float = 30.0) -> list[Answer]:
        """Send ``job`` and return all its answers. Raises ``AssertionError`` when they do not come."""
        self.submit(job)
        give_up_s = time.monotonic() + within_s
        while not (answers := self.books.answers_to(job.job_id)):
            assert time.monotonic() < give_up_s, f"{job.job_id} was not answered\n{self.books.verdict()}"
            self._read()
        return answers

    def _read(self) -> None:
        for batch in self._consumer.poll(timeout_ms=100, max_records=5000).values():
            for raw in batch:
                record = _record(raw)
                self._ends[record.partition] = record.offset + 1
                self.books.note(record)

    def _uncommitted(self) -> list[str]:
        """Return where the group has not committed all that was read there."""
        jobs = {self._topics.of_lane(lane) for lane in Lane}
        behind = []
        for partition, end in self._ends.items():
            if partition.topic in jobs and (committed := self._committed(partition)) < end:
                behind.append(f"  {partition.topic}-{partition.number}: {committed} of {end}")
        return behind

    def _committed(self, partition: Partition) -> int:
        try:
            return self._consumer.committed(TopicPartition(*partition), timeout_ms=5000) or 0
        except KafkaError:  # the broker is away just now
            return 0


def _record(raw: Any) -> Record:
    return Record(
        partition=Partition(raw.topic, raw.partition),
        offset=raw.offset,
        key=raw.key,
        value=raw.value,
        headers=tuple((name, value or b"") for name, value in raw.headers or ()),
        timestamp_ms=raw.timestamp,
    )

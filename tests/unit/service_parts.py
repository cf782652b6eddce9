"""Records, orders and stand-ins for tests of the service: nothing here reads a clip or knows a model."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.bus.base import Headers, Offsets, Outgoing, Partition, Record
from pipeline.bus.headers import CloudEvent, EventType, TraceContext, event_headers, header
from pipeline.bus.memory import MemoryBus
from pipeline.bus.topics import Topics
from pipeline.ingest.message import IngestedJob
from pipeline.service.admission import Prospect, Verdict
from pipeline.service.dispatcher import Order
from pipeline.service.ledger import Claim, Ledger
from pipeline.service.letters import Sender
from schemas.deadline import Clock, Deadline
from schemas.events import DeadLetter, SlaEvent
from schemas.job import Lane, Source, VideoJob
from schemas.result import FusedResult, ResultStatus

TOPICS = Topics()
WALL_S = 1_800_000_000.0
SENDER = Sender("w1", TOPICS, lambda: WALL_S)
TRACE = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
PATIENCE_S = 20.0

IDLE = Prospect(cores=1, begun=0, left_s=0.0, work_s=0.0, span_s=0.0)
"""Nothing is in the way of one more job."""

_numbers = itertools.count()


def partition(lane: Lane = Lane.REALTIME, number: int = 0) -> Partition:
    return Partition(TOPICS.of_lane(lane), number)


def memory_bus(*, partitions: int = 2) -> MemoryBus:
    return MemoryBus({topic.name: partitions for topic in TOPICS.all()})


def job(name: str = "", **changes: Any) -> VideoJob:
    name = name or f"job-{next(_numbers)}"
    return VideoJob(
        **{"job_id": name, "video_id": f"{name}-video", "source": Source(uri="file:///clip.mp4"), **changes}
    )


def job_headers(trace: TraceContext = TRACE) -> Headers:
    event = CloudEvent(id="1", type=EventType.JOB, source="/tests", time=SENDER.now)
    return event_headers(event, trace)


def job_message(sent: VideoJob) -> Outgoing:
    body = sent.model_dump_json(exclude_unset=True).encode()
    return Outgoing(TOPICS.of_lane(sent.lane), sent.video_id.encode(), body, job_headers())


def record(
    value: bytes | None = b"{}", *, at: Partition | None = None, offset: int = 0, timestamp_ms: int | None = None
) -> Record:
    stamp_ms = int(WALL_S * 1000) if timestamp_ms is None else timestamp_ms
    return Record(at or partition(), offset, b"key", value, job_headers(), stamp_ms)


def order(
    asked: VideoJob | None = None,
    *,
    clock: Clock,
    in_s: float = float("inf"),
    age_s: float = 0.0,
    claim: Claim | None = None,
) -> Order:
    """An order that was just read and has its deadline in ``in_s``."""
    asked = asked or job()
    at = partition(asked.lane)
    claim = claim or Claim(at, next(_numbers), term=1)
    deadline = Deadline(clock() + in_s, clock)
    return Order(
        record=record(asked.model_dump_json().encode(), at=at, offset=claim.offset),
        ingested=IngestedJob(asked, deadline, TRACE, age_s=age_s, skew_s=0.0),
        claim=claim,
        read_s=clock(),
    )


def begin_one(ledger: Ledger, at: Partition | None = None, offset: int = 0) -> Claim:
    """Assign the partition where that was not done, and begin the record."""
    at = at or partition()
    if at not in ledger.partitions:
        ledger.assign([at], {})
    claim = ledger.begin(at, offset, as_of=ledger.term)
    assert claim is not None
    return claim


def result(asked: VideoJob, status: ResultStatus = ResultStatus.COMPLETE, **more: Any) -> FusedResult:
    return FusedResult(
        **{"pipeline_version": "0", "job_id": asked.job_id, "video_id": asked.video_id, "status": status, **more}
    )


@dataclass
class Outcomes:
    """Remembers what became of each order."""

    told: list[tuple[str, Order]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    """Of those that were refused."""

    def answered(self, order: Order, result: FusedResult) -> None:
        self.told.append(("answered", order))

    def refused(self, order: Order, verdict: Verdict) -> None:
        self.told.append(("refused", order))
        self.verdicts.append(verdict)

    def expired(self, order: Order) -> None:
        self.told.append(("expired", order))

    def broken(self, order: Order, error: Exception) -> None:
        self.told.append(("broken", order))

    def of(self, order: Order) -> list[str]:
        return [kind for kind, about in self.told if about is order]


@dataclass
class Analyst:
    """Begins jobs, ends each when the test says so, and expects what the test says."""

    begun: list[VideoJob] = field(default_factory=list)
    deadlines: dict[str, Deadline] = field(default_factory=dict)
    """By which each was to be ready."""
    expects: Prospect = IDLE
    _ends: dict[str, asyncio.Future[FusedResult]] = field(default_factory=dict)

    async def __call__(self, job: VideoJob, *, deadline: Deadline) -> FusedResult:
        self.begun.append(job)
        self.deadlines[job.job_id] = deadline
        self._ends[job.job_id] = asyncio.get_running_loop().create_future()
        try:
            return await self._ends[job.job_id]
        finally:
            del self._ends[job.job_id]

    def prospect(self) -> Prospect:
        return self.expects

    @property
    def under_way(self) -> list[str]:
        return list(self._ends)

    def finish(self, job_id: str) -> None:
        asked = next(job for job in self.begun if job.job_id == job_id)
        self._ends[job_id].set_result(result(asked))

    def fail(self, job_id: str, error: Exception) -> None:
        self._ends[job_id].set_exception(error)


@dataclass(frozen=True)
class Obliging:
    """An analyst that does what a function says, and takes every job."""

    do: Callable[..., Awaitable[FusedResult]]

    async def __call__(self, job: VideoJob, *, deadline: Deadline) -> FusedResult:
        return await self.do(job, deadline=deadline)

    def prospect(self) -> Prospect:
        return IDLE


async def _answer(job: VideoJob, *, deadline: Deadline) -> FusedResult:
    return result(job)


answer_at_once = Obliging(_answer)
"""An analyst that needs no time."""


async def settle(rounds: int = 5) -> None:
    """Let everything happen that is due now."""
    for _ in range(rounds):
        await asyncio.sleep(0)


def wait_for(done: Callable[[], bool]) -> None:
    """Wait for other threads."""
    ends_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < ends_s, "it did not happen"
        time.sleep(0.001)


async def until(done: Callable[[], bool]) -> None:
    """Wait for other threads, on a loop that goes on."""
    ends_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < ends_s, "it did not happen"
        await asyncio.sleep(0.001)


async def running(work: Awaitable[Any], done: Callable[[], bool]) -> "asyncio.Task[Any]":
    """Start ``work`` and wait until ``done``; what ``work`` raises meanwhile comes out."""
    task = asyncio.ensure_future(work)
    await until(lambda: done() or task.done())
    if task.done():
        task.result()
    return task


def results(bus: MemoryBus) -> list[FusedResult]:
    return [FusedResult.model_validate_json(found.value or b"") for found in bus.records(TOPICS.results)]


def sla_events(bus: MemoryBus) -> list[SlaEvent]:
    return [SlaEvent.model_validate_json(found.value or b"") for found in bus.records(TOPICS.sla)]


def dead_letters(bus: MemoryBus) -> list[DeadLetter]:
    return [DeadLetter.model_validate_json(found.value or b"") for found in bus.records(TOPICS.dead_letters)]


def handed_over(bus: MemoryBus) -> list[VideoJob]:
    return [VideoJob.model_validate_json(found.value or b"") for found in bus.records(TOPICS.backfill)]


def sent_headers(messages: Sequence[Outgoing | Record], name: str) -> list[str | None]:
    return [header(message.headers, name) for message in messages]


def ends(bus: MemoryBus, lane: Lane = Lane.REALTIME) -> dict[Partition, int]:
    """Where each partition of a lane ends, empty ones left out."""
    return {at: bus.end(at) for at in bus.partitions if at.topic == TOPICS.of_lane(lane) and bus.end(at)}


def offsets(committed: Offsets) -> dict[Partition, int]:
    return {at: position.offset for at, position in committed.items()}

"""What became of each job, by the broker's clock, read from the topics when all is over."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.service_topics import read_all
from pipeline.bus.base import Bus, Partition, Record
from pipeline.bus.headers import header
from pipeline.bus.topics import Topics
from schemas.job import Lane
from schemas.result import ResultStatus

BUDGET_MS = 500
GOOD = (ResultStatus.COMPLETE, ResultStatus.PARTIAL)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. ``worker``: who sent it, empty where they do not say."""

    at_ms: int
    status: ResultStatus
    worker: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One job as it was sent, and its answers in the order they came."""

    lane: Lane
    partition: Partition
    sent_ms: int
    replies: tuple[Reply, ...]

    @property
    def latency_ms(self) -> float:
        """Until the first answer; infinite without one."""
        return self.replies[0].at_ms - self.sent_ms if self.replies else math.inf

    @property
    def in_time(self) -> bool:
        """Whether the first answer, of whatever kind, came within the budget."""
        return self.latency_ms <= BUDGET_MS

    @property
    def is_good(self) -> bool:
        """Whether the first answer came in time and says something about the clip."""
        return self.in_time and self.replies[0].status in GOOD


def outcomes(bus: Bus, topics: Topics) -> list[Outcome]:
    """Return what became of every job of both lanes, in the order they were sent.

    A job that was handed over lies in both lanes and has two answers: the first is the realtime lane's.
    """
    records = read_all(bus, [topics.realtime, topics.backfill, topics.results])
    replies: dict[str, list[Reply]] = {}
    for record in records:
        if record.partition.topic == topics.results and record.value is not None:
            body = json.loads(record.value)
            replies.setdefault(body["job_id"], []).append(_reply(record, body["status"]))
    found = [_outcome(record, topics, replies) for record in records if record.partition.topic != topics.results]
    return sorted(found, key=lambda outcome: outcome.sent_ms)


def _reply(record: Record, status: str) -> Reply:
    worker = (header(record.headers, "ce_source") or "").rpartition("/")[2]
    return Reply(record.timestamp_ms, ResultStatus(status), worker)


def _outcome(record: Record, topics: Topics, replies: dict[str, list[Reply]]) -> Outcome:
    mine = sorted(replies.get(json.loads(record.value or b"{}")["job_id"], ()), key=lambda reply: reply.at_ms)
    lane = topics.lane_of(record.partition.topic)
    return Outcome(lane, record.partition, record.timestamp_ms, tuple(mine))


def lateness_causes(bus: Bus, topics: Topics) -> Counter[str]:
    """Return how often the worker named each cause for an answer that was late or cut short."""
    events = (json.loads(record.value or b"{}") for record in read_all(bus, [topics.sla]))
    return Counter(event["cause"] for event in events if event.get("cause") and event["lane"] == Lane.REALTIME)


@dataclass(frozen=True, slots=True)
class Tally:
    """Shares of what was offered, 0 to 1; ``good_s``: useful answers in time, a second."""

    offered: int
    offered_s: float
    in_time: float
    shares: dict[str, float]
    good_s: float
    p50_ms: float
    p99_ms: float


UNANSWERED = "none"
ANSWERS = (*ResultStatus, UNANSWERED)


def tally(jobs: Sequence[Outcome], *, seconds: float) -> Tally:
    """Sum up ``jobs`` that were offered over ``seconds``. There must be some."""
    first = Counter(str(job.replies[0].status) if job.replies else UNANSWERED for job in jobs)
    latencies_ms = [job.latency_ms for job in jobs]
    return Tally(
        offered=len(jobs),
        offered_s=len(jobs) / seconds,
        in_time=sum(job.in_time for job in jobs) / len(jobs),
        shares={name: first[name] / len(jobs) for name in ANSWERS},
        good_s=sum(job.is_good for job in jobs) / seconds,
        p50_ms=median(latencies_ms),
        p99_ms=percentile(latencies_ms, 0.99),
    )


def percentile(values: Iterable[float], part: float) -> float:
    """Return the smallest value that at least ``part`` of ``values`` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]

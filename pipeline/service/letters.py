"""The messages that say what became of a record. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.bus.base import Outgoing, Record
from pipeline.bus.headers import CloudEvent, EventType, TraceContext, event_headers, trace_of
from pipeline.bus.topics import Topics
from pipeline.ingest.message import BadMessage, IngestedJob, original_record
from pipeline.plain_text import plain
from pipeline.version import PIPELINE_VERSION
from schemas.base import WireModel
from schemas.errors import HalfsecondError
from schemas.events import DeadLetter, LatenessCause, SlaEvent, StageMiss
from schemas.job import Lane, VideoJob
from schemas.result import ErrorInfo, FusedResult, ResultStatus, StageStatus

_MISSED = frozenset({StageStatus.TIMED_OUT, StageStatus.FAILED})

MAX_REASON_CHARS = 2000
"""What a dead letter takes."""

WallClock = Callable[[], float]
"""Returns seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who writes, where to, and by which clock."""

    worker_id: str
    topics: Topics
    wall: WallClock

    @property
    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromtimestamp(self.wall(), UTC)

    def message(self, topic: str, *, key: str, body: WireModel, event_type: str, trace: TraceContext) -> Outgoing:
        """Return ``body`` as a message of a child span of ``trace``."""
        span = trace.child()
        event = CloudEvent(
            id=f"{self.worker_id}/{key}/{span.span_id}",
            type=event_type,
            source=f"/halfsecond/workers/{self.worker_id}",
            time=self.now,
        )
        return Outgoing(topic, key.encode(), body.model_dump_json().encode(), event_headers(event, span))


def unanswered(job: VideoJob, status: ResultStatus, error: HalfsecondError | None = None) -> FusedResult:
    """Return the result of a job that nothing was found out about."""
    return FusedResult(
        pipeline_version=PIPELINE_VERSION,
        job_id=job.job_id,
        video_id=job.video_id,
        source_uri=job.source.uri,
        status=status,
        error=None
        if error is None
        else ErrorInfo(code=error.code, message=plain(error.message), retryable=error.retryable),
    )


def result_letter(sender: Sender, ingested: IngestedJob, result: FusedResult) -> Outgoing:
    """Return the terminal answer, keyed by video so that a newer one replaces it."""
    return sender.message(
        sender.topics.results,
        key=result.video_id,
        body=result,
        event_type=EventType.RESULT,
        trace=ingested.trace,
    )


def handover_letter(sender: Sender, ingested: IngestedJob) -> Outgoing:
    """Return the job as one of the backfill lane, where it has no deadline: nothing is lost by overload."""
    job = ingested.job.model_copy(update={"lane": Lane.BACKFILL, "budget_ms": None})
    return sender.message(
        sender.topics.backfill, key=job.video_id, body=job, event_type=EventType.JOB, trace=ingested.trace
    )


def dead_letter(sender: Sender, record: Record, error: BadMessage) -> Outgoing:
    """Return a message that no job could be read from."""
    letter = DeadLetter(
        pipeline_version=PIPELINE_VERSION,
        original=original_record(record),
        code=error.code,
        error_class=error.kind,
        reason=plain(error.message, limit=MAX_REASON_CHARS),
        stage="parse",
        first_failed_at=sender.now,
    )
    return _dead(sender, record, letter)


def bad_video_letter(sender: Sender, record: Record, job: VideoJob, error: ErrorInfo) -> Outgoing:
    """Return a job whose clip can never be analysed. Its result says so, too; this copy can be replayed."""
    letter = DeadLetter(
        pipeline_version=PIPELINE_VERSION,
        original=original_record(record),
        job_id=job.job_id,
        video_id=job.video_id,
        code=error.code,
        error_class="BadVideo",
        reason=plain(error.message, limit=MAX_REASON_CHARS),
        retryable=error.retryable,
        stage="fetch" if error.code.startswith(("FETCH", "CHECKSUM")) else "probe",
        first_failed_at=sender.now,
    )
    return _dead(sender, record, letter)


def _dead(sender: Sender, record: Record, letter: DeadLetter) -> Outgoing:
    key = f"{record.partition.topic}-{record.partition.number}-{record.offset}"
    return sender.message(
        sender.topics.dead_letters,
        key=key,
        body=letter,
        event_type=EventType.DEAD_LETTER,
        trace=trace_of(record.headers),
    )


@dataclass(frozen=True, slots=True)
class Timing:
    """``waited_s``: until analysis began; ``took_s``: from the record's timestamp until now. Alike: it never began."""

    waited_s: float
    took_s: float


def sla_letter(sender: Sender, ingested: IngestedJob, result: FusedResult, timing: Timing) -> Outgoing:
    """Return how the job did against its deadline."""
    budget_ms = ingested.job.budget_ms
    in_time = budget_ms is None or timing.took_s * 1e3 <= budget_ms
    misses = tuple(
        StageMiss(
            stage=name,
            status=report.status,
            queue_ms=report.queue_ms,
            elapsed_ms=report.elapsed_ms,
            error=report.error,
        )
        for name, report in result.stages.items()
        if report.status in _MISSED
    )
    cut_short = bool(misses) or result.status is ResultStatus.EXPIRED
    event = SlaEvent(
        pipeline_version=PIPELINE_VERSION,
        job_id=result.job_id,
        video_id=result.video_id,
        lane=ingested.job.lane,
        status=result.status,
        at=sender.now,
        budget_ms=budget_ms,
        latency_ms=max(0.0, timing.took_s * 1e3),
        in_time=in_time,
        waited_ms=max(0.0, timing.waited_s * 1e3),
        cause=_cause(ingested, result, timing) if cut_short or not in_time else None,
        misses=misses,
        plan=result.plan.name if result.plan is not None else None,
        clock_skew_ms=ingested.skew_s * 1e3,
        worker_id=sender.worker_id,
    )
    return sender.message(
        sender.topics.sla, key=result.video_id, body=event, event_type=EventType.SLA, trace=ingested.trace
    )


def _cause(ingested: IngestedJob, result: FusedResult, timing: Timing) -> LatenessCause:
    budget_s = (ingested.job.budget_ms or 0) / 1e3
    if ingested.age_s > budget_s / 2:
        return LatenessCause.ON_ARRIVAL
    if timing.waited_s - ingested.age_s > budget_s / 2 or timing.waited_s >= timing.took_s:
        return LatenessCause.WAITING
    if not result.stages:
        return LatenessCause.FETCH
    return LatenessCause.ANALYSIS

"""What the service tells besides results: messages without an answer, and how each job did against its deadline."""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field

from schemas.base import WireModel
from schemas.errors import ErrorCode
from schemas.job import Lane
from schemas.result import ResultStatus, StageStatus

DEAD_LETTER_SCHEMA_VERSION = 1
SLA_EVENT_SCHEMA_VERSION = 1

MAX_KEPT_BYTES = 512 * 1024
"""Of a dead letter's message: more than any valid job, little enough that its base64 fits into one message."""

_KEPT_CHARS = 4 * -(-MAX_KEPT_BYTES // 3)

Base64 = Annotated[str, Field(max_length=_KEPT_CHARS, pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


class OriginalHeader(WireModel):
    """A header as it came. Its value may be any bytes."""

    name: Annotated[str, Field(max_length=200)]
    value_base64: Annotated[str, Field(max_length=4096)]


class OriginalRecord(WireModel):
    """Where a message lay, and its bytes."""

    topic: Annotated[str, Field(max_length=249)]
    partition: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)]
    timestamp_ms: Annotated[int, Field(description="As on the record, since 1970; -1: it had none")]
    key_base64: Annotated[str | None, Field(max_length=4096, description="None: no key")] = None
    message_base64: Annotated[Base64 | None, Field(description="Its first bytes; None: it was a tombstone")] = None
    message_bytes: Annotated[int, Field(ge=0, description="How long the whole message was")] = 0
    headers: Annotated[tuple[OriginalHeader, ...], Field(max_length=32)] = ()


class DeadLetter(WireModel):
    """A message that got no result, and why. ``halfsecond dead-letters replay`` sends it again."""

    schema_version: int = DEAD_LETTER_SCHEMA_VERSION
    pipeline_version: str
    original: OriginalRecord
    job_id: Annotated[str | None, Field(description="None: the message could not be read")] = None
    video_id: str | None = None
    code: ErrorCode
    error_class: Annotated[str, Field(max_length=100, description="The kind of error, finer than the code")]
    reason: Annotated[str, Field(max_length=2000, description="For people")]
    retryable: bool = False
    stage: Annotated[str, Field(max_length=100, description="Where it failed: parse, fetch, or a stage's name")]
    attempt: Annotated[int, Field(ge=1, description="How often it was tried")] = 1
    first_failed_at: AwareDatetime


class LatenessCause(StrEnum):
    """What took the time of a job that was late or cut short."""

    ON_ARRIVAL = "on_arrival"  # it was late, or nearly, when it was read from the topic
    WAITING = "waiting"  # it waited in the worker for its turn
    FETCH = "fetch"  # the clip's bytes came slowly
    ANALYSIS = "analysis"  # stages were slower than predicted
    SENDING = "sending"  # the result was ready in time and stored late


class StageMiss(WireModel):
    """A stage that was not ready by the deadline, or failed."""

    stage: Annotated[str, Field(max_length=100)]
    status: StageStatus
    queue_ms: float = 0.0
    elapsed_ms: float = 0.0
    error: ErrorCode | None = None


class SlaEvent(WireModel):
    """How one job did. Every record that was read is counted once, whatever became of it."""

    schema_version: int = SLA_EVENT_SCHEMA_VERSION
    pipeline_version: str
    job_id: str
    video_id: str
    lane: Lane
    status: ResultStatus
    at: AwareDatetime
    budget_ms: Annotated[float | None, Field(description="None: no deadline")] = None
    latency_ms: Annotated[float, Field(ge=0, description="From the record's timestamp until the result was sent")]
    in_time: bool
    waited_ms: Annotated[float, Field(ge=0, description="Of it: until the worker began")] = 0.0
    cause: Annotated[LatenessCause | None, Field(description="None: in time and nothing was cut short")] = None
    misses: tuple[StageMiss, ...] = ()
    plan: str | None = None
    clock_skew_ms: Annotated[float, Field(description="By which the record's timestamp was corrected")] = 0.0
    worker_id: Annotated[str, Field(max_length=200)]

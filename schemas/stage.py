"""What a stage hands to fusion."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from schemas.errors import ErrorCode
from schemas.result import StageStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StageResult(Generic[T]):
    """How one stage ended and what it found.

    ``value`` may be there although the stage timed out: it is then what was ready. Milliseconds count from the job's
    arrival on the injected clock.
    """

    name: str
    status: StageStatus
    value: T | None = None
    start_ms: float = 0.0
    end_ms: float = 0.0
    queue_ms: float = 0.0
    model: str | None = None
    plan: str | None = None
    error: ErrorCode | None = None

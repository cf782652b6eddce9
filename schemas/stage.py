"""What a stage hands to fusion."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from schemas.errors import ErrorCode
from schemas.result import StageStatus

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class StageResult(Generic[T]):
    """How one stage ended and what it found, one part a unit of work (frame, sound track, text).

    Parts may be there although the stage timed out: they are then what was ready. Milliseconds count from the job's
    arrival on the injected clock; ``queue_ms`` is the part of it spent waiting, for a CPU slot or for its next unit.
    """

    name: str
    status: StageStatus
    parts: tuple[T, ...] = ()
    start_ms: float = 0.0
    end_ms: float = 0.0
    queue_ms: float = 0.0
    model: str | None = None
    plan: str | None = None
    error: ErrorCode | None = None

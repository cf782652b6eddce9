"""What one job knows so far: every stage's parts, times and ending.

Branches write while they run; fusion may read at any instant, so a deadline turns into whatever is ready and not into
an exception. Belongs to one job and one event loop.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from schemas.deadline import Clock
from schemas.errors import DeadlineExceeded, ErrorCode, HalfsecondError, MediaError
from schemas.result import StageStatus
from schemas.stage import StageResult

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StageRecord:
    """One stage of one job, while it runs and after.

    ``parts`` holds what each finished unit (frame, sound track) found. Milliseconds count from the job's arrival;
    ``busy_ms`` sums the time its units really ran.
    """

    name: str
    model: str | None = None
    plan: str | None = None
    status: StageStatus | None = None
    parts: list[Any] = field(default_factory=list)
    start_ms: float = 0.0
    end_ms: float | None = None
    busy_ms: float = 0.0
    error: ErrorCode | None = None
    at_work: bool = False

    def begin_work(self, now_ms: float) -> None:
        """Let the stage's time run from its first piece of work: waiting for another stage to end was none of it."""
        if not self.at_work:
            self.at_work, self.start_ms = True, now_ms

    def fail(self, status: StageStatus, error: ErrorCode) -> None:
        """Note how it failed. The first failure stays; parts that were found stay too."""
        if self.error is None:
            self.status, self.error = status, error


class Board:
    """The stages of one job."""

    def __init__(self, *, job_id: str, began_s: float, clock: Clock) -> None:
        self._job_id = job_id
        self.began_s = began_s
        self._clock = clock
        self._records: dict[str, StageRecord] = {}

    def now_ms(self) -> float:
        """Milliseconds since the job's arrival."""
        return (self._clock() - self.began_s) * 1e3

    def parts(self, name: str) -> tuple[Any, ...]:
        """Return what the stage has found so far; empty when it has not begun. Does not mutate."""
        record = self._records.get(name)
        return tuple(record.parts) if record else ()

    @contextmanager
    def running(self, name: str, *, model: str | None = None, plan: str | None = None) -> Iterator[StageRecord]:
        """Record one stage from here to the end of the block; the block's exception becomes its status.

        Refused media (``MediaError``) and cancellation go on to the caller; every other failure stays in the record, so
        that the other stages go on.
        """
        record = StageRecord(name=name, model=model, plan=plan, start_ms=self.now_ms())
        self._records[name] = record
        try:
            with self.guard(record):
                yield record
                record.status = record.status or StageStatus.OK
        finally:
            record.end_ms = self.now_ms()

    @contextmanager
    def guard(self, record: StageRecord) -> Iterator[None]:
        """Turn a failure of this block (one unit of the stage) into the record's status; see ``running``."""
        try:
            yield
        except asyncio.CancelledError:
            record.fail(StageStatus.TIMED_OUT, ErrorCode.DEADLINE_EXCEEDED)
            raise
        except DeadlineExceeded as error:
            record.fail(StageStatus.TIMED_OUT, error.code)
        except MediaError as error:
            record.fail(StageStatus.FAILED, error.code)
            raise
        except HalfsecondError as error:
            log.warning("job %s: stage %s failed: %s", self._job_id, record.name, error)
            record.fail(StageStatus.FAILED, error.code)
        except Exception:
            log.exception("job %s: stage %s failed unexpectedly", self._job_id, record.name)
            record.fail(StageStatus.FAILED, ErrorCode.INTERNAL)

    def conclude(self, name: str, status: StageStatus) -> None:
        """Record a stage that does not run: ``absent`` or ``skipped``. Keeps what is already there."""
        if name not in self._records:
            now_ms = self.now_ms()
            self._records[name] = StageRecord(name=name, status=status, start_ms=now_ms, end_ms=now_ms)

    def results(self, names: tuple[str, ...]) -> dict[str, StageResult[Any]]:
        """Return every stage of ``names`` as it stands now; what has not ended counts as timed out. Does not mutate."""
        return {name: self._result(self._records.get(name) or self._not_begun(name)) for name in names}

    def _not_begun(self, name: str) -> StageRecord:
        return StageRecord(name=name, start_ms=self.now_ms())

    def _result(self, record: StageRecord) -> StageResult[Any]:
        end_ms = self.now_ms() if record.end_ms is None else record.end_ms
        return StageResult(
            name=record.name,
            status=record.status or StageStatus.TIMED_OUT,
            parts=tuple(record.parts),
            start_ms=record.start_ms,
            end_ms=end_ms,
            queue_ms=max(0.0, end_ms - record.start_ms - record.busy_ms),
            model=record.model,
            plan=record.plan,
            error=record.error if record.status else ErrorCode.DEADLINE_EXCEEDED,
        )

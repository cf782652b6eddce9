"""What the jobs under way still have to do, and what one more would: for plans that share the cores."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipeline.forecast import Forecast
from schemas.deadline import Clock

SMOOTHING = 0.1
"""Weight of the newest job in what a job takes: about the last twenty count."""

START_WORK_MS, START_SPAN_MS = 300.0, 250.0
"""Of a job, until the first has been planned."""


@dataclass(slots=True)
class _Share:
    """What one job needs, and what of it is done. ``units``: when those under way began."""

    work_ms: float
    done_ms: float = 0.0
    units: dict[int, float] = field(default_factory=dict)

    def left_ms(self, now_s: float) -> float:
        under_way_ms = sum(now_s - began_s for began_s in self.units.values()) * 1e3
        return max(0.0, self.work_ms - self.done_ms - under_way_ms)


class Load:
    """What every job that has been planned and has not ended needs for a whole answer. Thread-safe.

    Looks beyond that give way to whoever needs the cores, and so are no part of it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._units = itertools.count()
        self._shares: dict[str, _Share] = {}
        self.work_ms = START_WORK_MS
        """What a job needs on one core, on average."""
        self.span_ms = START_SPAN_MS
        """Of that, what must happen one after another, on average."""

    @property
    def jobs(self) -> int:
        """Planned and not ended."""
        return len(self._shares)

    def begin(self, job_id: str, expected: Forecast) -> None:
        """Note a job. ``expected``: what it typically takes."""
        with self._lock:
            self._shares[job_id] = _Share(expected.needed_ms)
            self.work_ms += SMOOTHING * (expected.needed_ms - self.work_ms)
            self.span_ms += SMOOTHING * (expected.span_ms - self.span_ms)

    def revise(self, job_id: str, expected: Forecast) -> None:
        """Note what a job takes all in all, now that more is known of it. Of one not planned: nothing happens."""
        with self._lock:
            if (share := self._shares.get(job_id)) is not None:
                share.work_ms = expected.needed_ms

    @contextmanager
    def unit(self, job_id: str, *, clock: Clock) -> Iterator[None]:
        """Take what happens in this context off what a job needs. Of one that was not planned: nothing happens."""
        with self._lock:
            share, number = self._shares.get(job_id), next(self._units)
            if share is not None:
                share.units[number] = clock()
        try:
            yield
        finally:
            if share is not None:
                with self._lock:
                    share.done_ms += (clock() - share.units.pop(number)) * 1e3

    def end(self, job_id: str) -> None:
        """Note that a job has ended, planned or not."""
        with self._lock:
            self._shares.pop(job_id, None)

    def left_ms(self, now_s: float, *, without: str | None = None) -> float:
        """Return what is left of all of them together, in milliseconds on one core. ``without``: a job not to count."""
        with self._lock:
            return sum(share.left_ms(now_s) for job_id, share in self._shares.items() if job_id != without)

"""What the jobs under way still have to do, and what one more would: for plans that share the cores. Pure."""

from dataclasses import dataclass

from pipeline.forecast import Forecast

SMOOTHING = 0.1
"""Weight of the newest job in what a job takes: about the last twenty count."""

START_WORK_MS, START_SPAN_MS = 300.0, 250.0
"""Of a job, until the first has been planned."""


@dataclass(frozen=True, slots=True)
class _Share:
    work_ms: float
    began_s: float
    lasts_s: float

    def left_ms(self, now_s: float) -> float:
        """Return the work that is left, if it is done evenly until the predicted end."""
        return self.work_ms * max(0.0, 1 - (now_s - self.began_s) / self.lasts_s)


class Load:
    """What every job that has been planned and has not ended needs for a whole answer.

    Looks beyond that give way to whoever needs the cores, and so are no part of it.
    """

    def __init__(self) -> None:
        self._shares: dict[str, _Share] = {}
        self.work_ms = START_WORK_MS
        """What a job needs on one core, on average."""
        self.span_ms = START_SPAN_MS
        """Of that, what must happen one after another, on average."""

    @property
    def jobs(self) -> int:
        """Planned and not ended."""
        return len(self._shares)

    def begin(self, job_id: str, expected: Forecast, *, slots: int, now_s: float) -> None:
        """Note a job. ``expected``: what it typically takes."""
        others_ms = self.left_ms(now_s)
        lasts_ms = max(expected.span_ms, (expected.needed_ms + others_ms) / slots, 1.0)
        self._shares[job_id] = _Share(expected.needed_ms, now_s, lasts_ms / 1e3)
        self.work_ms += SMOOTHING * (expected.needed_ms - self.work_ms)
        self.span_ms += SMOOTHING * (expected.span_ms - self.span_ms)

    def end(self, job_id: str) -> None:
        """Note that a job has ended, planned or not."""
        self._shares.pop(job_id, None)

    def left_ms(self, now_s: float) -> float:
        """Return what is left of all of them together, in milliseconds on one core."""
        return sum(share.left_ms(now_s) for share in self._shares.values())

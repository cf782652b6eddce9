"""What the jobs under way still have to do, so that a new one plans for the cores that are left. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Share:
    work_ms: float
    began_s: float
    lasts_s: float

    def left_ms(self, now_s: float) -> float:
        """Return the work that is left, if it is done evenly until the predicted end."""
        return self.work_ms * max(0.0, 1 - (now_s - self.began_s) / self.lasts_s)


class Load:
    """The predicted work of every job that has been planned and has not ended."""

    def __init__(self) -> None:
        self._shares: dict[str, _Share] = {}

    def begin(self, job_id: str, *, work_ms: float, lasts_ms: float, now_s: float) -> None:
        """Note a job of ``work_ms`` on one core, predicted to end in ``lasts_ms``."""
        self._shares[job_id] = _Share(work_ms, now_s, max(lasts_ms, 1.0) / 1e3)

    def end(self, job_id: str) -> None:
        """Note that a job has ended, planned or not."""
        self._shares.pop(job_id, None)

    def left_ms(self, now_s: float) -> float:
        """Return what is left of all of them together, in milliseconds on one core."""
        return sum(share.left_ms(now_s) for share in self._shares.values())

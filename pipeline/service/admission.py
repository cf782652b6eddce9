"""Whether a job can still be answered usefully. Pure and synchronous.

A job that comes when the house is full is told so at once, with a hint when to come again: time spent on answers that
nobody gets in time is what makes goodput collapse under overload.
"""

from dataclasses import dataclass

SMOOTHING = 0.1
"""Weight of the newest job in what a job costs: about the last twenty count."""

START_S = 0.3
"""What a job costs until the first has told."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``admitted``, or when to come again."""

    admitted: bool
    wait_s: float
    """How long the job would wait for its turn."""
    retry_after_s: float = 0.0


class DoorPolicy:
    """Predicts a job's turn from what jobs cost lately. ``places``: jobs that run at once."""

    def __init__(self, *, places: int, least_s: float) -> None:
        """``least_s``: what the cheapest useful answer takes."""
        self._places = places
        self._least_s = least_s
        self._cost_s = START_S

    @property
    def cost_s(self) -> float:
        """What a job takes in its place, on average."""
        return self._cost_s

    def learn(self, took_s: float) -> None:
        """Take note of what a job took. Mutates."""
        self._cost_s += SMOOTHING * (took_s - self._cost_s)

    def judge(self, *, ahead: int, running: int, remaining_s: float) -> Verdict:
        """Return whether a job with ``remaining_s`` left gets its turn in time, ``ahead`` others being before it."""
        turns = max(0, ahead + running - self._places + 1)
        wait_s = turns * self._cost_s / self._places
        late_by_s = wait_s + self._least_s - remaining_s
        return Verdict(late_by_s <= 0, wait_s, max(0.0, late_by_s))

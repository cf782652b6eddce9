"""Whether a job can still be answered usefully. Pure and synchronous.

A job that comes when the house is full is told so at once, with a hint when to come again: time spent on answers that
nobody gets in time, or that lack what matters most, is what makes goodput collapse under overload.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prospect:
    """What the jobs under way still take, and what one more would take for the cheapest whole answer.

    ``left_s``: core seconds that are left of ``begun`` jobs; ``work_s``: core seconds of a typical one; ``span_s``:
    seconds that it takes when it has all ``cores`` for itself.
    """

    cores: int
    begun: int
    left_s: float
    work_s: float
    span_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """``admitted``, or when to come again."""

    admitted: bool
    wait_s: float
    """How long the job would wait for its turn."""
    retry_after_s: float = 0.0


def judge(prospect: Prospect, *, under_way: int, remaining_s: float, least_s: float) -> Verdict:
    """Return whether a job with ``remaining_s`` left gets a whole answer after ``under_way`` others.

    With nobody before it, it gets whatever answer it can, if there is time for any (``least_s``).
    """
    wait_s = (prospect.left_s + max(0, under_way - prospect.begun) * prospect.work_s) / prospect.cores
    needed_s = wait_s + max(least_s, prospect.span_s) if wait_s or under_way else least_s
    late_by_s = needed_s - remaining_s
    return Verdict(late_by_s <= 0, wait_s, max(0.0, late_by_s))

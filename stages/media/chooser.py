"""Which of the decoded pictures answers which wanted time. Pure."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Candidate(NamedTuple, Generic[T]):
    """A decoded picture. ``clean``: neither it nor anything it was predicted from is damaged."""

    t_s: float
    clean: bool
    picture: T


class Chooser(Generic[T]):
    """Picks for each wanted time the nearest picture, a clean one if there is any nearer to it than to another time.

    Candidates are offered in display order; a choice is returned as soon as nothing later can improve it. A time to
    which no candidate is nearest gets none.
    """

    def __init__(self, wanted_s: Sequence[float]) -> None:
        self._wanted_s = wanted_s
        self._index = 0
        self._best: Candidate[T] | None = None

    @property
    def wanted_s(self) -> float | None:
        """The time that is looked for now; None when all are settled."""
        return self._wanted_s[self._index] if self._index < len(self._wanted_s) else None

    def offer(self, candidate: Candidate[T]) -> list[Candidate[T]]:
        """Consider a picture, and return the choices that are now settled."""
        settled: list[Candidate[T]] = []
        while self.wanted_s is not None and candidate.t_s > self._border_s(self._index):
            settled += self._settle()
        if self.wanted_s is None or candidate.t_s <= self._border_s(self._index - 1):
            return settled
        if self._best is None or self._rank(candidate) > self._rank(self._best):
            self._best = candidate
        # All that follows lies at least this far behind the wanted time.
        if self._best.clean and candidate.t_s - self.wanted_s >= abs(self._best.t_s - self.wanted_s):
            settled += self._settle()
        return settled

    def finish(self) -> list[Candidate[T]]:
        """Return what was found for the time looked for last: there are no more candidates."""
        return self._settle()

    def _rank(self, candidate: Candidate[T]) -> tuple[bool, float]:
        return candidate.clean, -abs(candidate.t_s - self._wanted_s[self._index])

    def _border_s(self, index: int) -> float:
        """Where the wanted time of ``index`` ends being the nearest and the next one begins."""
        if index < 0:
            return float("-inf")
        if index + 1 == len(self._wanted_s):
            return float("inf")
        return (self._wanted_s[index] + self._wanted_s[index + 1]) / 2

    def _settle(self) -> list[Candidate[T]]:
        best, self._best = self._best, None
        self._index += 1
        return [best] if best else []

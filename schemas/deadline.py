"""The absolute instant by which an answer is owed."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]
"""Returns monotonic seconds. Injected wherever policy needs the time."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A monotonic instant, made once per job. Never crosses a host: the wire carries ``ingested_at + budget_ms``.

    ``at_s`` is seconds on ``clock``; ``float("inf")`` means no deadline.
    """

    at_s: float
    clock: Clock = field(default=time.monotonic, repr=False, compare=False)

    @classmethod
    def after(cls, seconds: float, *, clock: Clock = time.monotonic) -> "Deadline":
        """Return the deadline ``seconds`` from now."""
        return cls(clock() + seconds, clock)

    @classmethod
    def never(cls, *, clock: Clock = time.monotonic) -> "Deadline":
        """Return a deadline that does not pass."""
        return cls(float("inf"), clock)

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at_s - self.clock())

    @property
    def expired(self) -> bool:
        """Whether the instant has passed."""
        return self.clock() >= self.at_s

    def reserve(self, seconds: float) -> "Deadline":
        """Return an earlier deadline that leaves ``seconds`` for what comes after."""
        return Deadline(self.at_s - seconds, self.clock)

"""Whether to try a replica that failed. Pure: the clock's time is passed in.

Closed: requests go there. Open, after ``max_failures`` within ``window_s`` or a failed probe: none do, for the
cool-down. Then half open: one attempt at a time, and what becomes of it closes the breaker or opens it again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NewType

Epoch = NewType("Epoch", int)
"""Counts the changes of state. What began in an earlier epoch says nothing about this one."""


class BreakerState(Enum):
    """See above."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """When to open, and for how long.

    ``jitter`` is the largest share of the cool-down that is added by chance, lest all breakers close at once.
    """

    max_failures: int = 3
    window_s: float = 10.0
    cooldown_s: float = 5.0
    jitter: float = 0.2


class Breaker:
    """Of one replica. Every attempt that is begun must be ended by one of ``succeeded``, ``failed``, ``abandoned``."""

    def __init__(self, settings: BreakerSettings, *, chance: Callable[[], float]) -> None:
        """``chance`` returns a number from 0 to 1, evenly."""
        self._settings = settings
        self._chance = chance
        self._failures_s: deque[float] = deque(maxlen=settings.max_failures)
        self._opens_until_s: float | None = None
        self._epoch = Epoch(0)
        self._trial_since_s: float | None = None

    def state(self, now_s: float) -> BreakerState:
        """Return the state. Does not mutate."""
        if self._opens_until_s is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now_s < self._opens_until_s else BreakerState.HALF_OPEN

    def can_begin(self, now_s: float) -> bool:
        """Whether an attempt may begin now.

        A half open breaker has one at a time; one that lasts longer than the cool-down is no longer waited for.
        """
        state = self.state(now_s)
        if state is not BreakerState.HALF_OPEN:
            return state is BreakerState.CLOSED
        return self._trial_since_s is None or now_s - self._trial_since_s >= self._settings.cooldown_s

    def begin(self, now_s: float) -> Epoch:
        """Begin an attempt; raises ``ValueError`` when none may. Return what to end it with."""
        if not self.can_begin(now_s):
            raise ValueError("the breaker is open")
        if self._opens_until_s is not None:
            self._change()
            self._trial_since_s = now_s
        return self._epoch

    def succeeded(self, epoch: Epoch) -> None:
        """End an attempt well: a half open breaker closes."""
        if epoch == self._epoch and self._trial_since_s is not None:
            self._opens_until_s = None
            self._failures_s.clear()
            self._change()

    def failed(self, epoch: Epoch, now_s: float, *, fatal: bool = False) -> None:
        """End an attempt badly. ``fatal`` opens the breaker whatever was before."""
        if epoch != self._epoch:
            return
        self._failures_s.append(now_s)
        if fatal or self._trial_since_s is not None or self._failed_too_often(now_s):
            cooldown_s = self._settings.cooldown_s * (1 + self._settings.jitter * self._chance())
            self._opens_until_s = now_s + cooldown_s
            self._change()

    def abandoned(self, epoch: Epoch) -> None:
        """End an attempt that nobody waited for: nothing is known."""
        if epoch == self._epoch:
            self._trial_since_s = None

    def _failed_too_often(self, now_s: float) -> bool:
        full = len(self._failures_s) == self._settings.max_failures
        return full and now_s - self._failures_s[0] <= self._settings.window_s

    def _change(self) -> None:
        self._trial_since_s = None
        self._epoch = Epoch(self._epoch + 1)

"""One number that orders requests in vLLM's queue: class first, then absolute deadline."""

import time
from dataclasses import dataclass

from llm_engine.base import PriorityClass
from schemas.deadline import Clock, Deadline

CLASS_BITS = 42
"""A class spans 2^42 ms, which Unix time fills in the year 2109. Three classes need 44 bits: exact in vLLM's 64-bit
integer and in the 53 bits of a JSON number."""

_LAST_MS = (1 << CLASS_BITS) - 1


@dataclass(frozen=True, slots=True)
class PriorityScale:
    """Maps class and deadline to vLLM's ``priority`` (smaller goes first).

    Unix time, because several processes may share one server, and their monotonic clocks begin anywhere. The distance
    of the clocks is read once: of two deadlines in one process the earlier never gets the larger number.
    """

    to_unix_s: float
    """Unix time minus the deadlines' clock."""

    @classmethod
    def of(cls, *, clock: Clock = time.monotonic, wall: Clock = time.time) -> "PriorityScale":
        """Return the scale for deadlines on ``clock``."""
        return cls(wall() - clock())

    def number(self, priority: PriorityClass, deadline: Deadline) -> int:
        """Return class x 2^42 + the deadline in Unix milliseconds; no deadline is the last of its class."""
        last_s = _LAST_MS / 1000
        unix_ms = int(1000 * min(max(0.0, deadline.at_s + self.to_unix_s), last_s))
        return (priority << CLASS_BITS) + min(unix_ms, _LAST_MS)

"""How long an answer takes from the desk to the bus: so much before its deadline it must be ready. Thread-safe."""

import threading
from collections import deque

START_S = 0.02
"""At least, until a window of answers has told."""

LONGEST_S = 0.1
"""While the broker is away, nothing that is known of answers says when it comes back."""

WINDOW = 256
QUANTILE = 0.99
MARGIN_S = 0.008
"""For the one in a hundred. Most answers are ready before they must be."""


class PostingTime:
    """Learns how long it takes until answers are stored."""

    def __init__(self) -> None:
        self._took_s: deque[float] = deque(maxlen=WINDOW)
        self._lock = threading.Lock()

    def observe(self, took_s: float) -> None:
        """Take note of one answer. Mutates."""
        with self._lock:
            self._took_s.append(min(took_s, LONGEST_S))

    @property
    def reserve_s(self) -> float:
        """What to keep in reserve before a deadline."""
        with self._lock:
            took_s = sorted(self._took_s)
        learnt_s = took_s[int(QUANTILE * (len(took_s) - 1))] if took_s else 0.0
        return (learnt_s if len(took_s) == WINDOW else max(learnt_s, START_S)) + MARGIN_S

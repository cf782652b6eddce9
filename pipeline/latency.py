"""What each stage costs on this machine, learnt while running. Pure: no clock, no I/O."""

from collections import deque
from collections.abc import Mapping

WINDOW = 64
"""Observations kept a stage: enough for a p95, few enough to follow a machine that becomes busy within seconds."""

QUANTILE = 0.95


class LatencyBook:
    """Online quantiles of milliseconds per unit of work, one estimate a key.

    A key is a stage, or a stage with its model (``transcribe:base``); the unit of work is the caller's (a frame, a
    second of sound, a megapixel). Starts from ``priors`` (ms per unit), which the first observations replace.
    """

    def __init__(self, priors: Mapping[str, float]) -> None:
        self._priors = dict(priors)
        self._rates: dict[str, deque[float]] = {}

    def observe(self, key: str, *, ms: float, work: float) -> None:
        """Learn from one finished unit. Mutates the book. Ignores units without work."""
        if work <= 0 or ms < 0:
            return
        self._rates.setdefault(key, deque(maxlen=WINDOW)).append(ms / work)

    def forget(self, key: str) -> None:
        """Drop what was observed of ``key``: start-up does work that no clip does. Mutates the book."""
        self._rates.pop(key, None)

    def predict_ms(self, key: str, *, work: float) -> float:
        """Return the p95 cost of ``work`` units. Raises ``KeyError`` for a key without prior or observation."""
        return self.rate_ms(key) * work

    def rate_ms(self, key: str) -> float:
        """Return the p95 cost of one unit."""
        rates = self._rates.get(key)
        if not rates:
            return self._priors[key]
        ordered = sorted(rates)
        return ordered[min(len(ordered) - 1, int(QUANTILE * len(ordered)))]

"""What each stage costs on this machine, learnt while running. Pure: no clock, no I/O."""

from collections import deque
from collections.abc import Mapping

WINDOW = 64
"""Observations kept a stage: enough for a p95, few enough to follow a machine that becomes busy within seconds."""

SAFE, TYPICAL = 0.95, 0.5
"""Quantiles: what promises rest on, and what sums over many units come to."""


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

    def predict_ms(self, key: str, *, work: float, quantile: float = SAFE) -> float:
        """Return what ``work`` units cost. Raises ``KeyError`` for a key without prior or observation."""
        return self.rate_ms(key, quantile) * work

    def rate_ms(self, key: str, quantile: float = SAFE) -> float:
        """Return what one unit costs."""
        rates = self._rates.get(key)
        if not rates:
            return self._priors[key]
        ordered = sorted(rates)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]

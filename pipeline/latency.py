"""What each stage costs on this machine, learnt while running. Pure: no clock, no I/O. Thread-safe.

Three rules keep an estimate from doing harm for long:

* it rests on the last ``WINDOW`` observations alone, so a stall or a slow minute is forgotten after as many;
* one observation may move it by ``MOST_AT_ONCE`` at most, once there are others;
* an estimate that forbids work can never be corrected by that work: it is **doubted** (``doubt``), and so the work is
  tried again after a bounded number of refusals.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

WINDOW = 8
"""Observations kept a key. A machine that becomes three times as slow is believed after half of them (``TYPICAL``), one
that becomes fast again after all of them (``SAFE``): within ten clips both ways."""

SAFE, TYPICAL = 0.95, 0.5
"""Quantiles: what promises rest on, and what sums over many units come to."""

MOST_AT_ONCE = 16.0
"""Factor between what was expected and what is believed of one observation: no processor is that much slower than
another, a paused machine is."""

DOUBT = 0.7
"""What is left of an estimate each time it forbids work. Ten times too high is tried again after seven refusals."""


@dataclass(frozen=True, slots=True)
class Line:
    """Milliseconds of a unit: ``fixed_ms`` for any, and ``rate_ms`` for each piece of work in it."""

    rate_ms: float
    fixed_ms: float = 0.0

    def at(self, work: float) -> float:
        """Return what ``work`` costs."""
        return self.fixed_ms + self.rate_ms * work


@dataclass(frozen=True, slots=True)
class KeptEstimate:
    """An estimate as it is kept between two runs."""

    fixed_ms: float
    rate_ms: float
    factors: tuple[float, ...] = ()


@dataclass(slots=True)
class _Estimate:
    """``factors``: how much dearer than ``line`` the last units were."""

    line: Line
    factors: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    trust: float = 1.0

    def factor(self, quantile: float) -> float:
        if not self.factors:
            return 1.0
        ordered = sorted(self.factors)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]


class LatencyBook:
    """Online quantiles of milliseconds of work, one estimate a key.

    A key is a stage, or a stage with what its cost depends on (``transcribe:other:5``); the unit of work is the
    caller's (a frame, a second of speech, a megapixel). Starts from ``priors`` (lines, or milliseconds a unit), which
    the first observations replace.
    """

    def __init__(self, priors: Mapping[str, float | Line]) -> None:
        self._lock = threading.Lock()
        self._estimates = {
            key: _Estimate(prior if isinstance(prior, Line) else Line(prior)) for key, prior in priors.items()
        }

    def observe(self, key: str, *, ms: float, work: float) -> None:
        """Learn from one finished unit. Mutates the book. Ignores units without work."""
        if work <= 0 or ms < 0:
            return
        with self._lock:
            estimate = self._estimates.setdefault(key, _Estimate(Line(1.0)))
            factor = ms / max(estimate.line.at(work), 1e-9)
            if estimate.factors:
                factor = min(factor, MOST_AT_ONCE * estimate.factor(TYPICAL))
            estimate.factors.append(factor)
            estimate.trust = 1.0

    def calibrate(self, key: str, points: Iterable[tuple[float, float]]) -> None:
        """Lay the line of ``key`` through what units of different size took alone, (work, ms) each; forget the rest.

        Two sizes or more give the line's slope; with one, its shape stays. Mutates the book.
        """
        known = sorted(points)
        (least, least_ms), (most, most_ms) = known[0], known[-1]
        with self._lock:
            line = self._estimates[key].line
            if most > least:
                rate_ms = max(0.0, most_ms - least_ms) / (most - least)
                line = Line(rate_ms, max(0.0, least_ms - rate_ms * least))
            else:
                factor = least_ms / max(line.at(least), 1e-9)
                line = Line(line.rate_ms * factor, line.fixed_ms * factor)
            self._estimates[key] = _Estimate(line)

    def doubt(self, key: str) -> None:
        """Note that the estimate has kept a unit from being begun: it is believed less until one is. Mutates."""
        with self._lock:
            if key in self._estimates:
                self._estimates[key].trust *= DOUBT

    def forget(self, key: str) -> None:
        """Drop what was observed of ``key``: start-up does work that no clip does. Mutates the book."""
        with self._lock:
            if key in self._estimates:
                self._estimates[key] = _Estimate(self._estimates[key].line)

    def predict_ms(self, key: str, *, work: float, quantile: float = SAFE) -> float:
        """Return what ``work`` units of ``key`` cost together. Raises ``KeyError`` for a key without any estimate."""
        with self._lock:
            estimate = self._estimates[key]
            return estimate.line.at(work) * estimate.factor(quantile) * estimate.trust

    def rate_ms(self, key: str, quantile: float = SAFE) -> float:
        """Return what one unit costs."""
        return self.predict_ms(key, work=1.0, quantile=quantile)

    def kept(self) -> dict[str, KeptEstimate]:
        """Return what was learnt, for the next start. Does not mutate."""
        with self._lock:
            return {
                key: KeptEstimate(fixed_ms=e.line.fixed_ms, rate_ms=e.line.rate_ms, factors=tuple(e.factors))
                for key, e in self._estimates.items()
            }

    def restore(self, kept: Mapping[str, KeptEstimate]) -> None:
        """Take up what ``kept`` returned in an earlier run; keys that are not known now are left out. Mutates."""
        with self._lock:
            for key in self._estimates.keys() & kept.keys():
                estimate = _Estimate(Line(kept[key].rate_ms, kept[key].fixed_ms))
                estimate.factors.extend(kept[key].factors)
                self._estimates[key] = estimate

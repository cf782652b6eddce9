"""A value's place on a drawn axis."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from 0 to ``end``. Places are percentages of its drawn length, as SVG attributes take them."""

    end: float

    def fraction(self, value: float) -> float:
        """Return where ``value`` lies, clamped to [0, 1]."""
        return min(1.0, max(0.0, value / self.end))

    def at(self, value: float) -> str:
        """Return where ``value`` lies, in percent."""
        return percent(self.fraction(value))

    def length(self, start: float, end: float, *, at_least: float = 0.0) -> str:
        """Return how long ``start``..``end`` is drawn, in percent; ``at_least`` (a fraction) keeps instants visible."""
        return percent(max(at_least, self.fraction(end) - self.fraction(start)))

    def ticks(self, most: int = 6) -> tuple[float, ...]:
        """Return up to ``most + 1`` round numbers (1, 2 or 5 times a power of ten) from 0 to the end."""
        raw = self.end / most
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
        return tuple(step * i for i in range(int(self.end / step + 1e-9) + 1))


def percent(fraction: float) -> str:
    """Return ``fraction`` in percent, to a thousandth, which is finer than a pixel."""
    return f"{100 * fraction:.3f}".rstrip("0").rstrip(".") + "%"

"""What a part of the benchmark has found: tables for people, and promises kept, missed, or not measured. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.tables import Table

Progress = Callable[[str], None]
"""Says in a few words what goes on."""

MET = {True: "yes", False: "NO", None: "not measured"}


@dataclass(frozen=True, slots=True)
class Goal:
    """One promise and what came of it. ``met`` None: it could not be measured, ``got`` says why."""

    name: str
    needed: str
    got: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Findings:
    """Of one part. ``absent``: why somebody could not take part, by name."""

    tables: Sequence[Table]
    goals: Sequence[Goal]
    absent: Mapping[str, str] = field(default_factory=dict)


def at_most(name: str, limit: float, got: float, *, unit: str = "") -> Goal:
    """Return the goal that ``got`` does not exceed ``limit``."""
    return Goal(name, f"<= {limit:g}{unit}", f"{got:.3g}{unit}", got <= limit)


def at_least(name: str, limit: float, got: float, *, unit: str = "") -> Goal:
    """Return the goal that ``got`` reaches ``limit``."""
    return Goal(name, f">= {limit:g}{unit}", f"{got:.3g}{unit}", got >= limit)


def unmeasured(name: str, needed: str, reason: str) -> Goal:
    """Return the goal that nobody could judge."""
    return Goal(name, needed, reason, None)


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of one round each: what else the machine did then has hit both."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))


def goals_table(goals: Sequence[Goal]) -> Table:
    """Return all goals as one table."""
    rows = [(goal.name, goal.needed, goal.got, MET[goal.met]) for goal in goals]
    return Table("Goals", ("goal", "needed", "got", "met"), rows)

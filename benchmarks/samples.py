"""What one run cost, and what many runs say together. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds. ``cpu_ms``: of all threads and processes that took part; None when it cannot be told apart."""

    wall_ms: float
    cpu_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One clip analysed once by one contestant. ``complete``: whether nothing was missing, where it says so.

    ``heard``: the words of the answer. ``looks``: frames that each looking stage had seen by then. ``chain_ms``: what
    had to happen one after another, from the sound over the longest piece of speech to its meaning.
    """

    contestant: str
    clip: str
    whole: Cost
    stages: dict[str, Cost] = field(default_factory=dict)
    complete: bool | None = None
    plan: str = ""
    heard: str = ""
    looks: dict[str, int] = field(default_factory=dict)
    chain_ms: float | None = None


def sample_from(document: Mapping[str, Any]) -> Sample:
    """Return the sample that ``dataclasses.asdict`` turned into ``document``."""
    stages = {name: Cost(**cost) for name, cost in document["stages"].items()}
    return Sample(**{**document, "whole": Cost(**document["whole"]), "stages": stages})


def p95(values: Iterable[float]) -> float:
    """Return the smallest value that at least 95 % of ``values`` do not exceed (nearest rank)."""
    return percentile(values, 95)


def percentile(values: Iterable[float], rank: int) -> float:
    """Return the smallest value that at least ``rank`` per cent of ``values`` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[math.ceil(rank * len(ordered) / 100) - 1]


def speed_up(samples: Sequence[Sample], *, of: str, over: str, cpu: bool = False) -> float:
    """Return how many times faster (or cheaper, with ``cpu``) ``of`` is than ``over``.

    The median over clips of the ratio of their medians, so that a long clip weighs as much as a short one.
    """
    ratios = []
    for clip in {sample.clip for sample in samples}:
        slow, fast = (_median(samples, contestant=name, clip=clip, cpu=cpu) for name in (over, of))
        ratios.append(slow / fast)
    return median(ratios)


def _median(samples: Sequence[Sample], *, contestant: str, clip: str, cpu: bool) -> float:
    mine = [s.whole for s in samples if s.contestant == contestant and s.clip == clip]
    return median((cost.cpu_ms or 0.0) if cpu else cost.wall_ms for cost in mine)

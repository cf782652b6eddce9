"""Sums of counters."""

from llm_engine.base import EngineStats


def total(*stats: EngineStats) -> EngineStats:
    """Return the sums, field by field."""
    return EngineStats(*map(sum, zip(*stats, strict=True)))

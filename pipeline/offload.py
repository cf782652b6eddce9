"""Runs the calls of text engines on the same CPU slots as everything else."""

from collections.abc import Callable
from typing import TypeVar

from pipeline.latency import LatencyBook
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots
from schemas.deadline import Deadline

T = TypeVar("T")


class SlotOffload:
    """An ``llm_engine.offload.Offload`` on CPU slots. Books what each call costs under ``key``."""

    def __init__(self, slots: CpuSlots, latencies: LatencyBook, *, key: str, rank: Rank) -> None:
        self._slots = slots
        self._latencies = latencies
        self._key = key
        self._rank = rank

    async def __call__(self, call: Callable[[], T], *, deadline: Deadline) -> T:
        """Return what ``call`` returns, or raise ``DeadlineExceeded``."""
        value, _ = await self._slots.run(call, rank=self._rank, deadline=deadline, book=self._book)
        return value

    def _book(self, ms: float) -> None:
        self._latencies.observe(self._key, ms=ms, work=1)

"""Runs the text engine's calls on the same CPU slots as everything else."""

from collections.abc import Callable
from typing import TypeVar

from pipeline.latency import LatencyBook
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots
from schemas.deadline import Deadline

T = TypeVar("T")


class SlotOffload:
    """An ``llm_engine.offload.Offload`` on CPU slots, with the rank of the chain that the clip's end waits for.

    Books what each call costs as the work of the ``text`` stage.
    """

    def __init__(self, slots: CpuSlots, latencies: LatencyBook) -> None:
        self._slots = slots
        self._latencies = latencies

    async def __call__(self, call: Callable[[], T], *, deadline: Deadline) -> T:
        """Return what ``call`` returns, or raise ``DeadlineExceeded``."""
        value, _ = await self._slots.run(call, rank=Rank.CHAIN, deadline=deadline, book=self._book)
        return value

    def _book(self, ms: float) -> None:
        self._latencies.observe("text", ms=ms, work=1)

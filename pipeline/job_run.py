"""What the branches of one job share while it runs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from pipeline.board import Board, StageRecord
from pipeline.frame_feed import FrameFeed
from pipeline.latency import LatencyBook
from pipeline.load import Load
from pipeline.planner import ChosenPlan
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots
from pipeline.toolbox import Toolbox
from schemas.deadline import Deadline
from schemas.job import VideoJob
from schemas.media import MediaWarning, ProbedMedia
from stages.workers import DecodePool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workshop:
    """What all jobs of one process share: models, decoders, CPU slots, what stages have cost, who else is at work."""

    tools: Toolbox
    decoders: DecodePool
    slots: CpuSlots
    latencies: LatencyBook
    load: Load = field(default_factory=Load)


@dataclass(slots=True)
class JobRun:
    """One job on its way: its board, its cutoff, and the meeting points of its branches.

    ``cutoff`` is the job's deadline less what fusion needs. The events are set once planning (``planned``), OCR
    (``written``), transcription (``said``) and all looking (``seen``) have ended, however they ended.
    """

    workshop: Workshop
    job: VideoJob
    path: Path
    plan_name: str
    cutoff: Deadline
    board: Board
    feed: FrameFeed = field(default_factory=FrameFeed)
    probed: ProbedMedia | None = None
    packets_damaged: int = 0
    decoding_warnings: tuple[MediaWarning, ...] = ()
    chosen: ChosenPlan | None = None
    cut_short: bool = False
    """Whether looks that were planned were left out, so that the answer is whole in time."""
    partial_at_best: bool = False
    """Whether there is no time left for something that a whole answer needs: others go first from then on."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    planned: asyncio.Event = field(default_factory=asyncio.Event)
    written: asyncio.Event = field(default_factory=asyncio.Event)
    said: asyncio.Event = field(default_factory=asyncio.Event)
    seen: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.begun.set()

    def wants(self, stage: str) -> bool:
        """Whether the job asked for ``stage``."""
        return self.job.want is None or stage in self.job.want

    @property
    def time_s(self) -> float:
        """From the job's arrival to the cutoff; infinite without a deadline."""
        return self.cutoff.at_s - self.board.began_s

    def title_language(self) -> str | None:
        """Return the language of the title, if it tells one: a hint for what is spoken."""
        return self.workshop.tools.text_language.of(self.job.title)

    @asynccontextmanager
    async def slot(self, rank: Rank) -> AsyncIterator[None]:
        """Hold a CPU slot for work that a decoder does. Raises ``DeadlineExceeded`` when none came free."""
        slots = self.workshop.slots
        async with slots.hold(rank=self._rank(rank), deadline=self.cutoff):
            with self.workshop.load.unit(self.job.job_id, clock=self.cutoff.clock):
                yield

    def _rank(self, rank: Rank) -> Rank:
        return max(rank, Rank.MORE) if self.partial_at_best else rank

    async def unit(
        self,
        record: StageRecord,
        work: Callable[[], T],
        *,
        rank: Rank,
        amount: float = 1.0,
        key: str | None = None,
        until: Deadline | None = None,
        start_by: Deadline | None = None,
    ) -> T:
        """Run one unit of a stage on a CPU slot, book its time, and return what it found.

        ``amount`` is the unit's size in the planner's measure, under ``key`` (the stage's name if None). Raises
        ``DeadlineExceeded`` when it has not ended by ``until`` (the cutoff if None), ``NotBegun`` when it was not even
        begun by ``start_by``.
        """
        value, run_ms = await self.workshop.slots.run(
            work if rank is Rank.MORE else partial(self._needed, work),
            rank=self._rank(rank),
            deadline=until or self.cutoff,
            start_by=start_by,
            book=lambda ms: self.workshop.latencies.observe(key or record.name, ms=ms, work=amount),
        )
        record.busy_ms += run_ms
        return value

    def _needed(self, work: Callable[[], T]) -> T:
        with self.workshop.load.unit(self.job.job_id, clock=self.cutoff.clock):
            return work()

"""What the branches of one job share while it runs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from pipeline.board import Board, StageRecord
from pipeline.feed import Feed
from pipeline.latency import TYPICAL, LatencyBook
from pipeline.load import Load
from pipeline.planner import ChosenPlan
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots, NotBegun
from pipeline.toolbox import Toolbox
from schemas.deadline import Deadline
from schemas.job import VideoJob
from schemas.media import Frame, MediaWarning, ProbedMedia
from stages.transcribe import HeardTranscript
from stages.workers import DecodePool

T = TypeVar("T")

HOPEFUL = 0.6
"""What an answer needs is begun as long as there is this share of the time that it typically takes: units differ by so
much, and what is missing without it is all of its kind. What is begun later holds its slot when the next clip comes."""

EXTRAS_SPARE_S = 0.005
"""Between the end of what is best effort and the cutoff: to take note of it."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What all jobs of one process share: models, decoders, CPU slots, what stages have cost, who else is at work."""

    tools: Toolbox
    decoders: DecodePool
    slots: CpuSlots
    latencies: LatencyBook
    load: Load = field(default_factory=Load)


@dataclass(slots=True)
class Progress:
    """Two instants, each reached however it went: what an answer needs is done, and so is all that makes it better."""

    once: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        """Reach both."""
        self.once.set()
        self.ended.set()


@dataclass(slots=True)
class JobRun:
    """One job on its way: its board, its cutoff, and the meeting points of its branches.

    ``cutoff`` is the job's deadline less what fusion needs. ``planned`` is set once planning has ended, ``written`` and
    ``seen`` tell how far OCR and all looking are; ``feed`` has the frames, and ``spoken`` the pieces of speech, as they
    come.
    """

    workshop: Workshop
    job: VideoJob
    path: Path
    plan_name: str
    cutoff: Deadline
    board: Board
    feed: Feed[Frame] = field(default_factory=Feed)
    spoken: Feed[HeardTranscript] = field(default_factory=Feed)
    probed: ProbedMedia | None = None
    packets_damaged: int = 0
    decoding_warnings: tuple[MediaWarning, ...] = ()
    chosen: ChosenPlan | None = None
    cut_short: bool = False
    """Whether looks that were planned were left out, so that the answer is whole in time."""
    done: set[str] = field(default_factory=set)
    """Kinds of units, by what their cost is booked under, of which at least one has ended in time."""
    partial_at_best: bool = False
    """Whether there is no time left for something that a whole answer needs: others go first from then on."""
    fits: bool = True
    """Whether the answer is typically whole in time: then what takes longest goes first, else what is needed most."""
    needed_looks_ms: float = 0.0
    """What one look of every kind and decoding for it typically cost, once that is known."""
    planned: asyncio.Event = field(default_factory=asyncio.Event)
    written: Progress = field(default_factory=Progress)
    seen: Progress = field(default_factory=Progress)

    def wants(self, stage: str) -> bool:
        """Whether the job asked for ``stage``."""
        return self.job.want is None or stage in self.job.want

    @property
    def time_s(self) -> float:
        """From the job's arrival to the cutoff; infinite without a deadline."""
        return self.cutoff.at_s - self.board.began_s

    @property
    def has_deadline(self) -> bool:
        """Whether there is a cutoff at all."""
        return self.cutoff.at_s < float("inf")

    def best_effort_until(self) -> Deadline:
        """Return until when what is best effort may take: it gives up before the cutoff, which nobody calls late."""
        return self.cutoff.reserve(self.workshop.latencies.predict_ms("wake", work=1) / 1e3 + EXTRAS_SPARE_S)

    def hopeful_until(self, key: str, *, due: Deadline, work: float = 1.0) -> Deadline:
        """Return until when a unit that an answer needs, and that is due then, may be begun."""
        typical_ms = self.workshop.latencies.predict_ms(key, work=work, quantile=TYPICAL)
        return due.reserve(HOPEFUL * typical_ms / 1e3)

    def beside_speech_ms(self) -> float:
        """Return what else must be done on the slots for this clip and others to be whole, typically: looks, mostly."""
        return self.needed_looks_ms + self.workshop.load.left_ms(self.cutoff.clock(), without=self.job.job_id)

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
        turn: int = 0,
    ) -> T:
        """Run one unit of a stage on a CPU slot, book its time, and return what it found.

        ``amount`` is the unit's size in the planner's measure, under ``key`` (the stage's name if None). Raises
        ``DeadlineExceeded`` when it has not ended by ``until`` (the cutoff if None), ``NotBegun`` when it was not even
        begun by ``start_by``. ``turn``: the clip's own order among units of one rank.
        """
        booked = key or record.name
        try:
            value, run_ms = await self.workshop.slots.run(
                work if rank is Rank.MORE else partial(self._needed, work),
                rank=self._rank(rank),
                deadline=until or self.cutoff,
                start_by=start_by,
                turn=turn,
                book=lambda ms: self.workshop.latencies.observe(booked, ms=ms, work=amount),
            )
        except NotBegun:
            if rank < Rank.MORE:
                self._give_up(booked)
            raise
        record.busy_ms += run_ms
        self.done.add(booked)
        return value

    def _give_up(self, key: str) -> None:
        """Note that something needed was not begun. If nothing of its kind was done, nothing taught its cost."""
        self.partial_at_best = True
        if key not in self.done:
            self.workshop.latencies.doubt(key)

    def _needed(self, work: Callable[[], T]) -> T:
        with self.workshop.load.unit(self.job.job_id, clock=self.cutoff.clock):
            return work()

"""One clip in, one fused result out: the flow on one page.

::

    job ──┬─ see ──── probe ── plan ── frames ──┬─ detect
          │                                     ├─ unsafe
          │                                     ├─ scene
          │                                     └─ ocr ─────────────┐
          ├─ hear ─── audio ── vad ── transcribe, piece by piece ───┤
          └─ read ─── title, description (known now) ───────────────┴─ sentiment, text ── fuse ── FusedResult

The three branches run side by side (``see.py``, ``hear.py``, ``read.py``). Each writes what it finds on the job's
board; at the deadline fusion takes the board as it stands. Late work is cancelled or thrown away, never waited for.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from pipeline.board import Board
from pipeline.evidence import Evidence
from pipeline.fusion import fuse
from pipeline.hear import hear
from pipeline.job_run import JobRun, Workshop
from pipeline.planner import ChosenPlan, cut_down
from pipeline.plans import check_plan_name
from pipeline.read import read
from pipeline.see import see
from schemas.deadline import Clock, Deadline
from schemas.errors import HalfsecondError, MediaError
from schemas.job import VideoJob
from schemas.media import Frame
from schemas.result import FusedResult, StageStatus

STAGES = (
    *("probe", "frames", "detect", "confirm", "scene", "unsafe", "ocr"),
    *("audio", "vad", "transcribe", "sentiment", "text"),
)
"""Every stage of a job, in the order people read them."""

SPARE_S = 0.003
"""Kept in reserve beside what fusion and a late wake-up are known to take: to hand the result over."""


MOST_WAKE_MS = 50.0
"""Most that is kept in reserve for a loop that wakes late: a machine that was paused for seconds is not a slow one."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result, and the pictures it speaks of (for pages and tests; they never go on the wire)."""

    result: FusedResult
    frames: tuple[Frame, ...]


class Analyzer:
    """Analyses clips that lie on this machine. Belongs to one event loop; jobs may overlap."""

    def __init__(self, workshop: Workshop, *, clock: Clock) -> None:
        self.workshop = workshop
        self.clock = clock

    async def analyze(self, job: VideoJob, path: Path, *, deadline: Deadline, plan: str = "auto") -> Analysis:
        """Return the result for ``job``, whose bytes lie at ``path``, by ``deadline``.

        Never raises for lateness or for bad media: the result's status and error say so. Raises
        ``ConfigurationError`` for an unknown plan.
        """
        check_plan_name(plan)
        # A loop whose threads are busy wakes late. How late is learnt like every other cost.
        ending_ms = sum(self.workshop.latencies.predict_ms(key, work=1) for key in ("wake", "fuse"))
        run = JobRun(
            workshop=self.workshop,
            job=job,
            path=path,
            plan_name=plan,
            cutoff=deadline.reserve(ending_ms / 1e3 + SPARE_S),
            board=Board(job_id=job.job_id, began_s=self.clock(), clock=self.clock),
        )
        try:
            with self.workshop.slots.hurried(deadline):
                refusal = await _until_the_cutoff(run)
        finally:
            self.workshop.load.end(job.job_id)
        return Analysis(self._fuse(run, refusal), run.feed.items)

    def _fuse(self, run: JobRun, refusal: HalfsecondError | None) -> FusedResult:
        began_ms = run.board.now_ms()
        result = fuse(
            Evidence(
                job=run.job,
                stages=run.board.results(STAGES),
                frames=run.feed.items,
                probed=run.probed,
                chosen=_plan_as_done(run),
                refusal=refusal,
                packets_damaged=run.packets_damaged,
                decoding_warnings=run.decoding_warnings,
            )
        )
        latency_ms = run.board.now_ms()
        self.workshop.latencies.observe("fuse", ms=latency_ms - began_ms, work=1)
        return result.model_copy(update={"latency_ms": latency_ms})


def _plan_as_done(run: JobRun) -> ChosenPlan | None:
    if run.chosen is None or not run.cut_short:
        return run.chosen
    shares = run.chosen.plan.shares.items()
    looked = {name: len(run.board.parts(name)) if run.wants(name) else share for name, share in shares}
    return cut_down(run.chosen, looked=looked)


async def _until_the_cutoff(run: JobRun) -> HalfsecondError | None:
    """Run the branches until they end or the cutoff comes; return why the file was refused, if it was."""
    never, began_late = run.cutoff.at_s == float("inf"), run.cutoff.expired
    try:
        async with asyncio.timeout(None if never else run.cutoff.remaining()):
            refusal = await _branches(run)
    except TimeoutError:
        late_s = run.cutoff.clock() - run.cutoff.at_s
        if not began_late:  # lateness that was there before says nothing about the loop
            run.workshop.latencies.observe("wake", ms=min(late_s * 1e3, MOST_WAKE_MS), work=1)
        return None  # the board says what is missing
    if not run.cutoff.expired:
        for name in STAGES:
            run.board.conclude(name, StageStatus.SKIPPED)  # what it would have worked on never came
    return refusal


async def _branches(run: JobRun) -> HalfsecondError | None:
    refusal: HalfsecondError | None = None
    try:
        async with asyncio.TaskGroup() as branches:
            branches.create_task(see(run))
            branches.create_task(hear(run))
            branches.create_task(read(run))
    except* MediaError as group:
        refusal = _first(group)
    return refusal


def _first(group: BaseExceptionGroup[MediaError]) -> MediaError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first

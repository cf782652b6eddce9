"""The looking branch: probe, plan, decode, and every stage that takes pictures."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from pipeline.board import StageRecord
from pipeline.forecast import decode_work, forecast
from pipeline.job_run import JobRun
from pipeline.latency import TYPICAL
from pipeline.planner import choose_plan
from pipeline.plans import Plan, sample, spread
from pipeline.slot_queue import Rank
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, ProbedMedia, SamplingPlan
from schemas.result import StageStatus
from stages.base import Stage
from stages.confirm import Look
from stages.workers import DecodeSession

RANKS = {"ocr": Rank.HEAVY, "detect": Rank.HEAVY, "unsafe": Rank.LIGHT, "scene": Rank.LIGHT}
"""Long units first: the last unit to end should be a short one."""


AFTERWARDS = {"detect": ("confirm",), "ocr": ("sentiment", "text")}
"""What waits for the last look of a stage."""

WAITING_SHARE = 0.2
"""Of a job's time, for what follows to get a slot. Units of other jobs cannot be interrupted."""


async def see(run: JobRun) -> None:
    """Probe the file, choose the plan, decode the planned frames and look at them.

    Raises ``MediaError`` when the file is refused; that ends the job.
    """
    try:
        async with AsyncExitStack() as decoder:
            session = await _probe(run, decoder)
            if session is not None and run.probed is not None:
                await _look_at(run, run.probed, session, decoder=decoder)
    finally:
        for meeting_point in (run.planned, run.written, run.seen):
            meeting_point.set()


async def _probe(run: JobRun, decoder: AsyncExitStack) -> DecodeSession | None:
    """Open the file in a decoder, which ``decoder`` gives back, and measure it."""
    session = None
    with run.board.running("probe") as record:
        opening = run.workshop.decoders.session(run.path, deadline=run.cutoff)
        session = await decoder.enter_async_context(opening)
        async with run.slot(Rank.FIRST):
            began_ms = run.board.now_ms()
            run.probed = await session.probe()
            record.busy_ms = run.board.now_ms() - began_ms
    return session


async def _look_at(run: JobRun, probed: ProbedMedia, session: DecodeSession, *, decoder: AsyncExitStack) -> None:
    plan = _choose_plan(run, probed)
    if not probed.has_video:
        for name in ("frames", "confirm", *plan.shares):
            run.board.conclude(name, StageStatus.ABSENT)
        return
    sampling = sample(plan, probed)
    async with asyncio.TaskGroup() as stages:
        stages.create_task(_decode(run, session, probed=probed, sampling=sampling, decoder=decoder))
        for name, share in plan.shares.items():
            frames = spread(share, of=len(sampling.times_s))
            looking = stages.create_task(_look(run, name, only=frames))
            if name == "ocr":
                looking.add_done_callback(lambda _: run.written.set())


def _choose_plan(run: JobRun, probed: ProbedMedia) -> Plan:
    load, now_s = run.workshop.load, run.cutoff.clock()
    run.chosen = chosen = choose_plan(
        run.plan_name,
        probed=probed,
        remaining_ms=run.cutoff.remaining() * 1e3,
        slots=run.workshop.slots.count,
        latencies=run.workshop.latencies,
        others_ms=load.left_ms(now_s),
        language=run.title_language(),
    )
    if run.cutoff.at_s != float("inf"):  # who has no deadline gives way
        expected = forecast(chosen.plan, probed=probed, latencies=run.workshop.latencies, quantile=TYPICAL)
        load.begin(run.job.job_id, expected)
    run.planned.set()
    return chosen.plan


async def _decode(
    run: JobRun, session: DecodeSession, *, probed: ProbedMedia, sampling: SamplingPlan, decoder: AsyncExitStack
) -> None:
    try:
        with run.board.running("frames", plan=f"{_frames(len(sampling.times_s))}, {sampling.strategy}") as record:
            async with run.slot(Rank.DECODE):
                began_ms = run.board.now_ms()
                async for frame in session.frames(sampling):
                    run.feed.append(frame)
                record.busy_ms = run.board.now_ms() - began_ms
            run.packets_damaged, run.decoding_warnings = session.packets_damaged, session.warnings
            run.workshop.latencies.observe("frames", ms=record.busy_ms, work=decode_work(probed, sampling))
    finally:
        run.feed.end()
        await decoder.aclose()  # the next clip may have it while this one is being looked at


async def _look(run: JobRun, name: str, *, only: frozenset[int]) -> None:
    """Let one stage look at the frames in ``only`` as they arrive, each a unit of its own.

    The first look makes the answer whole; further ones make it better, and are left out when the time gets short.
    """
    if not run.wants(name):
        run.board.conclude(name, StageStatus.SKIPPED)
        return
    stage: Stage[Frame, object] = getattr(run.workshop.tools, name)
    with run.board.running(name, model=stage.model, plan=_frames(len(only))) as record:
        look = _look_once
        async with asyncio.TaskGroup() as units:
            async for frame in run.feed.follow():
                if frame.index in only:
                    units.create_task(look(run, record, stage, frame))
                    look = _look_once_more
        if len(record.parts) < len(only):
            record.plan = f"{len(record.parts)} of {_frames(len(only))}"
    if name == "detect":
        await _confirm(run)


async def _look_once(run: JobRun, record: StageRecord, stage: Stage[Frame, object], frame: Frame) -> None:
    with run.board.guard(record):
        look = partial(stage.run, frame, deadline=run.cutoff)
        record.parts.append(await run.unit(record, look, rank=RANKS[record.name]))


async def _look_once_more(run: JobRun, record: StageRecord, stage: Stage[Frame, object], frame: Frame) -> None:
    until = run.cutoff.reserve(_afterwards_s(run, record.name))
    start_by = until.reserve(run.workshop.latencies.rate_ms(record.name) / 1e3)
    with run.board.guard(record):
        try:
            look = partial(stage.run, frame, deadline=until)
            record.parts.append(await run.unit(record, look, rank=Rank.MORE, until=until, start_by=start_by))
        except DeadlineExceeded:
            run.cut_short = True


def _afterwards_s(run: JobRun, name: str) -> float:
    """Return how long before the cutoff the last look of a stage must have ended, for what waits for it to be ready."""
    following = AFTERWARDS.get(name, ())
    needed_s = sum(run.workshop.latencies.rate_ms(key) for key in ("wake", *following)) / 1e3
    return needed_s + (WAITING_SHARE * run.time_s if following and run.time_s < float("inf") else 0.0)


async def _confirm(run: JobRun) -> None:
    """Ask a second network about what the detector is unsure of, over all frames together."""
    tool = run.workshop.tools.confirm
    frames = {frame.t_s: frame for frame in run.feed.frames}
    found = sorted(run.board.parts("detect"), key=lambda part: part.t_s)
    with run.board.running("confirm", model=tool.model) as record:
        looks = [Look(frames[part.t_s], part) for part in found]
        record.parts.append(await run.unit(record, partial(tool.run, looks, deadline=run.cutoff), rank=Rank.HEAVY))


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count} frames"

"""The looking branch: probe, plan, decode, and every stage that takes pictures."""

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import partial

from pipeline.board import StageRecord
from pipeline.forecast import decode_work, forecast
from pipeline.job_run import JobRun, Progress
from pipeline.latency import TYPICAL
from pipeline.planner import choose_plan
from pipeline.plans import Plan, sample, spread, spread_out
from pipeline.slot_queue import Rank
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, ProbedMedia, SamplingPlan
from schemas.result import StageStatus
from stages.base import Stage
from stages.confirm import Look
from stages.workers import DecodeSession

RANKS = {"ocr": Rank.HEAVY, "detect": Rank.HEAVY, "unsafe": Rank.LIGHT, "scene": Rank.LIGHT}
"""Long units first: the last unit to end should be a short one."""

SHORT_RANKS = {**RANKS, "ocr": Rank.LAST}
"""Where not all is expected to fit: the dearest look must not cost all others, nor the words."""


AFTERWARDS = ("confirm", "sentiment", "text")
"""What waits for the last looks. All further looks end before it begins, so that it finds its slots free."""

WAITING_SHARE = 0.2
"""Of a job's time, for what follows to get a slot where other jobs are at work: their units cannot be interrupted."""


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
        run.planned.set()
        run.written.end()
        run.seen.end()


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
    progress = {name: Progress() for name in plan.shares} | {"ocr": run.written}
    confirmed = Progress()
    async with asyncio.TaskGroup() as stages:
        stages.create_task(_decode(run, session, probed=probed, sampling=sampling, decoder=decoder))
        for name, share in plan.shares.items():
            frames = spread(share, of=len(sampling.times_s))
            stages.create_task(_look(run, name, only=frames, progress=progress[name]))
        stages.create_task(_confirm(run, detected=progress["detect"], confirmed=confirmed))
        for reached in (progress["scene"].once, confirmed.once):
            await reached.wait()
        run.seen.once.set()


def _choose_plan(run: JobRun, probed: ProbedMedia) -> Plan:
    load, now_s, language = run.workshop.load, run.cutoff.clock(), run.title_language()
    run.chosen = chosen = choose_plan(
        run.plan_name,
        probed=probed,
        remaining_ms=run.cutoff.remaining() * 1e3,
        slots=run.workshop.slots.count,
        latencies=run.workshop.latencies,
        others_ms=load.left_ms(now_s),
        language=language,
    )
    if run.has_deadline:  # who has no deadline gives way
        expected = forecast(
            chosen.plan, probed=probed, latencies=run.workshop.latencies, quantile=TYPICAL, language=language
        )
        run.needed_looks_ms = expected.glancing_ms
        run.fits = chosen.fits
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


async def _look(run: JobRun, name: str, *, only: frozenset[int], progress: Progress) -> None:
    """Let one stage look at the frames in ``only`` as they arrive, each a unit of its own.

    The first look makes the answer whole; further ones make it better, and are left out when the time gets short.
    """
    try:
        if run.wants(name):
            await _look_at_frames(run, name, only=only, progress=progress)
        else:
            run.board.conclude(name, StageStatus.SKIPPED)
    finally:
        progress.end()


async def _look_at_frames(run: JobRun, name: str, *, only: frozenset[int], progress: Progress) -> None:
    stage: Stage[Frame, object] = getattr(run.workshop.tools, name)
    # Every stage gets as much of the time that is left as any other, however many looks that is.
    look_ms = run.workshop.latencies.rate_ms(name, TYPICAL)
    turns = {index: round(turn * look_ms) for turn, index in enumerate(spread_out(sorted(only)))}
    with run.board.running(name, model=stage.model, plan=_frames(len(only))) as record:
        async with asyncio.TaskGroup() as units:
            begun = False
            async for frame in run.feed.follow():
                if frame.index in only and not begun:
                    begun = True
                    units.create_task(_look_once(run, record, stage, frame, progress=progress))
                elif frame.index in only:
                    units.create_task(_look_once_more(run, record, stage, frame, turn=turns[frame.index]))
        if len(record.parts) < len(only):
            record.plan = f"{len(record.parts)} of {_frames(len(only))}"


async def _look_once(
    run: JobRun, record: StageRecord, stage: Stage[Frame, object], frame: Frame, *, progress: Progress
) -> None:
    ranks = RANKS if run.fits else SHORT_RANKS
    with run.board.guard(record):
        look = partial(stage.run, frame, deadline=run.cutoff)
        start_by = run.hopeful_until(record.name, due=run.cutoff)
        record.parts.append(await run.unit(record, look, rank=ranks[record.name], start_by=start_by))
    progress.once.set()


async def _look_once_more(
    run: JobRun, record: StageRecord, stage: Stage[Frame, object], frame: Frame, *, turn: int
) -> None:
    until = run.cutoff.reserve(_afterwards_s(run))
    start_by = until.reserve(run.workshop.latencies.rate_ms(record.name) / 1e3)
    with run.board.guard(record):
        try:
            look = partial(stage.run, frame, deadline=until)
            part = await run.unit(record, look, rank=Rank.MORE, until=until, start_by=start_by, turn=turn)
            record.parts.append(part)
        except DeadlineExceeded:
            run.cut_short = True


def _afterwards_s(run: JobRun) -> float:
    """Return how long before the cutoff the last look must have ended, for what waits for it to be ready."""
    if not run.has_deadline:
        return 0.0
    needed_s = sum(run.workshop.latencies.rate_ms(key, TYPICAL) for key in AFTERWARDS) / 1e3
    return needed_s + (WAITING_SHARE * run.time_s if run.workshop.load.jobs > 1 else 0.0)


async def _confirm(run: JobRun, *, detected: Progress, confirmed: Progress) -> None:
    """Ask a second network about what the detector is unsure of: after its first look, and again after its last.

    Where there is no deadline, only after its last: then all looks come together anyway.
    """
    try:
        await (detected.once if run.has_deadline else detected.ended).wait()
        if not run.wants("detect"):
            return
        tool = run.workshop.tools.confirm
        with run.board.running("confirm", model=tool.model) as record:
            asked = await _second_opinion(run, record, until=run.cutoff)
            confirmed.once.set()
            await detected.ended.wait()
            if asked < len(run.board.parts("detect")):
                with suppress(DeadlineExceeded):  # the first opinion stands
                    await _second_opinion(run, record, until=run.best_effort_until())
    finally:
        confirmed.end()


async def _second_opinion(run: JobRun, record: StageRecord, *, until: Deadline) -> int:
    """Have all frames judged that the detector has seen; return how many."""
    frames = {frame.t_s: frame for frame in run.feed.items}
    found = sorted(run.board.parts("detect"), key=lambda part: part.t_s)
    looks = [Look(frames[part.t_s], part) for part in found]
    ask = partial(run.workshop.tools.confirm.run, looks, deadline=until)
    record.parts.append(await run.unit(record, ask, rank=Rank.HEAVY, until=until, start_by=until))
    return len(looks)


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count} frames"

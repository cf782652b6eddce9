"""The reading branch: what the clip's words mean and in which mood they are, piece by piece as they become known."""

import asyncio
from collections.abc import Callable
from functools import partial

from llm_engine.base import PriorityClass
from llm_engine.understanding import Origin, Understanding
from pipeline.board import StageRecord
from pipeline.findings import captions, confirmed, sight
from pipeline.job_run import JobRun
from pipeline.slot_queue import Rank
from schemas.deadline import Deadline
from schemas.job import Lane
from schemas.result import StageStatus
from stages.sentiment import SentimentTask, with_likelihood

EXTRAS_SPARE_S = 0.005
"""Between the end of what is best effort and the cutoff: to take note of it."""


async def read(run: JobRun) -> None:
    """Read title and description at once, captions when OCR has ended, speech when it is transcribed."""
    async with asyncio.TaskGroup() as stages:
        stages.create_task(_understand(run))
        stages.create_task(_feel(run))


async def _understand(run: JobRun) -> None:
    """Keep the record's last part up to date, so that a deadline costs only what came too late."""
    if not run.wants("text"):
        run.board.conclude("text", StageStatus.SKIPPED)
        return
    reader = run.workshop.tools.reader
    with run.board.running("text", model=reader.engine.model) as record:
        understanding = reader.begin(run.job.job_id, priority=_priority(run))
        async with asyncio.TaskGroup() as pieces:
            for origin, known, text in _sources(run):
                pieces.create_task(_take_in(run, record, understanding, origin=origin, known=known, text=text))
            pieces.create_task(_look(run, record, understanding))
        if not record.parts and record.error is None:
            record.status = StageStatus.ABSENT


async def _take_in(
    run: JobRun,
    record: StageRecord,
    understanding: Understanding,
    *,
    origin: Origin,
    known: asyncio.Event,
    text: Callable[[], str],
) -> None:
    await known.wait()
    words = text()
    if not words:
        return
    began_ms = run.board.now_ms()
    record.begin_work(began_ms)
    with run.board.guard(record):
        language = run.workshop.tools.text_language.of(words)
        await understanding.read(origin, words, language=language, deadline=run.cutoff)
        record.busy_ms += run.board.now_ms() - began_ms
    record.parts.append(understanding.insights())
    with run.board.guard(record):
        if await understanding.read_closely(origin, deadline=_for_extras(run)):
            record.parts.append(understanding.insights())
            record.model = understanding.model


async def _look(run: JobRun, record: StageRecord, understanding: Understanding) -> None:
    """Take in what the pictures show: it counts most when there are no words."""
    await run.seen.wait()
    looks = confirmed(run.board.parts("detect"), run.board.parts("confirm"))
    seen = sight(run.board.parts("scene"), looks)
    if not seen.words:
        return
    began_ms = run.board.now_ms()
    record.begin_work(began_ms)
    with run.board.guard(record):
        await understanding.look(seen, deadline=run.cutoff)
        record.busy_ms += run.board.now_ms() - began_ms
    record.parts.append(understanding.insights())


async def _feel(run: JobRun) -> None:
    """Read the mood of every text. Each part is an origin and its polarity."""
    if not run.wants("sentiment"):
        run.board.conclude("sentiment", StageStatus.SKIPPED)
        return
    tool = run.workshop.tools.sentiment
    with run.board.running("sentiment", model=tool.model) as record:
        async with asyncio.TaskGroup() as texts:
            for origin, known, text in _sources(run):
                texts.create_task(_feel_text(run, record, origin=origin, known=known, text=text))
        if not record.parts and record.error is None:
            record.status = StageStatus.ABSENT


async def _feel_text(
    run: JobRun, record: StageRecord, *, origin: Origin, known: asyncio.Event, text: Callable[[], str]
) -> None:
    await known.wait()
    words = text()
    if not words:
        return
    record.begin_work(run.board.now_ms())
    tools = run.workshop.tools
    with run.board.guard(record):
        language = tools.text_language.of(words)
        feel = partial(tools.sentiment.run, SentimentTask(words, language), deadline=run.cutoff)
        polarity = await run.unit(record, feel, rank=Rank.CHAIN)
        record.parts.append((origin, polarity))
        closely = tools.reader.closely(_priority(run))
        if closely is None or polarity is None:
            return
        mood = await closely.mood(words, language=language, deadline=_for_extras(run))
        if mood is not None:
            fused = with_likelihood(polarity, mood.likelihood, language=language, model=mood.model)
            record.parts.append((origin, fused))
            record.model = f"{tools.sentiment.model}+{mood.model}"


def _priority(run: JobRun) -> PriorityClass:
    return PriorityClass.REALTIME if run.job.lane is Lane.REALTIME else PriorityClass.BACKFILL


def _for_extras(run: JobRun) -> Deadline:
    """Return until when the language model may take: it gives up before the cutoff, which nobody calls late."""
    return run.cutoff.reserve(run.workshop.latencies.predict_ms("wake", work=1) / 1e3 + EXTRAS_SPARE_S)


def _sources(run: JobRun) -> tuple[tuple[Origin, asyncio.Event, Callable[[], str]], ...]:
    """Return every text of the clip with the event after which it is known, soonest first."""
    return (
        (Origin.TITLE, run.begun, lambda: run.job.title),
        (Origin.DESCRIPTION, run.begun, lambda: run.job.description),
        (
            Origin.SCREEN,
            run.written,
            lambda: "\n".join(span.text for span in captions(run.board.parts("ocr"), run.probed)),
        ),
        (Origin.SPEECH, run.said, lambda: "".join(transcript.text for transcript in run.board.parts("transcribe"))),
    )

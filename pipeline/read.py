"""The reading branch: what the clip's words mean and in which mood they are, piece by piece as they become known."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

from llm_engine.base import PriorityClass
from llm_engine.understanding import Origin, Understanding
from pipeline.board import StageRecord
from pipeline.findings import captions, confirmed, sight
from pipeline.job_run import JobRun
from pipeline.slot_queue import Rank
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.job import Lane
from schemas.result import StageStatus
from stages.sentiment import Feeling, SentimentTask, with_likelihood
from stages.transcribe import joined


@dataclass(frozen=True, slots=True)
class Version:
    """The text of one origin as far as it is known. ``needed``: without it the answer is not whole."""

    text: str
    needed: bool = True


async def read(run: JobRun) -> None:
    """Read title and description at once, captions when OCR has ended, speech each time more of it is written down."""
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
            for origin, texts in _sources(run):
                pieces.create_task(_take_in(run, record, understanding, origin=origin, texts=texts))
            pieces.create_task(_look(run, record, understanding))
        if not record.parts and record.error is None:
            record.status = StageStatus.ABSENT


async def _take_in(
    run: JobRun, record: StageRecord, understanding: Understanding, *, origin: Origin, texts: AsyncIterator[Version]
) -> None:
    read = False
    async for version in texts:
        read = True
        language = run.workshop.tools.text_language.of(version.text)
        with _reading(run, record, version) as deadline:
            await understanding.read(origin, version.text, language=language, deadline=deadline)
        record.parts.append(understanding.insights())
    if not read:
        return
    with run.board.guard(record):
        if await understanding.read_closely(origin, deadline=run.best_effort_until()):
            record.parts.append(understanding.insights())
            record.model = understanding.model


@contextmanager
def _reading(run: JobRun, record: StageRecord, version: Version) -> Iterator[Deadline]:
    """Book one reading, by the deadline that this yields; a better version that comes too late is no failure."""
    began_ms = run.board.now_ms()
    record.begin_work(began_ms)
    with run.board.guard(record), nullcontext() if version.needed else suppress(DeadlineExceeded):
        yield run.cutoff if version.needed else run.best_effort_until()
        record.busy_ms += run.board.now_ms() - began_ms


async def _look(run: JobRun, record: StageRecord, understanding: Understanding) -> None:
    """Take in what the pictures show, first and at last: it counts most when there are no words."""
    known: tuple[str, ...] = ()
    for reached in (run.seen.once, run.seen.ended):
        await reached.wait()
        looks = confirmed(run.board.parts("detect"), run.board.parts("confirm"))
        seen = sight(run.board.parts("scene"), looks)
        if not seen.words or tuple(seen.words) == known:
            continue
        version = Version(", ".join(seen.words), needed=not known)
        known = tuple(seen.words)
        with _reading(run, record, version) as deadline:
            await understanding.look(seen, deadline=deadline)
        record.parts.append(understanding.insights())


async def _feel(run: JobRun) -> None:
    """Read the mood of every text. Each part is the feeling of one; a later one of the same text replaces it."""
    if not run.wants("sentiment"):
        run.board.conclude("sentiment", StageStatus.SKIPPED)
        return
    tool = run.workshop.tools.sentiment
    with run.board.running("sentiment", model=tool.model) as record:
        async with asyncio.TaskGroup() as texts:
            for origin, versions in _sources(run):
                texts.create_task(_feel_text(run, record, origin=origin, texts=versions))
        if not record.parts and record.error is None:
            record.status = StageStatus.ABSENT


async def _feel_text(run: JobRun, record: StageRecord, *, origin: Origin, texts: AsyncIterator[Version]) -> None:
    tools = run.workshop.tools
    text, polarity = "", None
    async for version in texts:
        text = version.text
        task = SentimentTask(text, tools.text_language.of(text))
        with _reading(run, record, version) as deadline:
            feel = partial(tools.sentiment.run, task, deadline=deadline)
            polarity = await run.unit(record, feel, rank=Rank.CHAIN, until=deadline)
            record.parts.append(Feeling(origin, polarity, len(text)))
    closely = tools.reader.closely(_priority(run))
    if closely is None or polarity is None:
        return
    with run.board.guard(record):
        language = tools.text_language.of(text)
        mood = await closely.mood(text, language=language, deadline=run.best_effort_until())
        if mood is not None:
            fused = with_likelihood(polarity, mood.likelihood, language=language, model=mood.model)
            record.parts.append(Feeling(origin, fused, len(text)))
            record.model = f"{tools.sentiment.model}+{mood.model}"


def _priority(run: JobRun) -> PriorityClass:
    return PriorityClass.REALTIME if run.job.lane is Lane.REALTIME else PriorityClass.BACKFILL


def _sources(run: JobRun) -> tuple[tuple[Origin, AsyncIterator[Version]], ...]:
    """Return every text of the clip as it becomes known, soonest first; a later version replaces the ones before."""
    return (
        (Origin.TITLE, _at_once(run.job.title)),
        (Origin.DESCRIPTION, _at_once(run.job.description)),
        (Origin.SCREEN, _on_screen(run)),
        (Origin.SPEECH, _spoken(run)),
    )


async def _at_once(text: str) -> AsyncIterator[Version]:
    if text:
        yield Version(text)


async def _on_screen(run: JobRun) -> AsyncIterator[Version]:
    """Yield the captions that one look has read, and those of all looks."""
    known = ""
    for reached in (run.written.once, run.written.ended):
        await reached.wait()
        text = "\n".join(span.text for span in captions(run.board.parts("ocr"), run.probed))
        if text and text != known:
            yield Version(text, needed=not known)
            known = text


async def _spoken(run: JobRun) -> AsyncIterator[Version]:
    async for parts in run.spoken.growing():
        if text := joined(parts).text:
            yield Version(text)

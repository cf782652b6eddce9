"""The listening branch: sound, voice, words.

Up to the language it is strictly one after another, and goes first everywhere. From there on each piece of speech is a
unit of its own: pieces run side by side where slots are free, and each that ends in time is in the answer.
"""

import asyncio
from dataclasses import dataclass
from functools import partial

from pipeline.board import StageRecord
from pipeline.forecast import forecast
from pipeline.job_run import JobRun
from pipeline.latency import TYPICAL
from pipeline.slot_queue import Rank
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, MediaError
from schemas.media import AudioClip
from schemas.perception import SpeechSpan
from schemas.result import StageStatus
from stages.speech_window import PIECE_S, Window, cut_pieces, piece_count
from stages.transcribe import HeardTranscript, PieceTask, SpeechTask, cost_key

LISTENING = ("audio", "vad", "transcribe")

LISTEN_SHARE = 0.25
"""Share of the time left that decoding sound may take: what comes after it costs at least three times as much."""

SHORTEST_LISTEN_S = 10.0
"""Worth trying on any machine."""

LONGEST_LISTEN_S = 3600.0
"""Above every sensible limit on a clip's duration, which the probe enforces."""

CHAIN_SHARE = 0.75
"""Of the time left, that speech is planned for: on busy cores each piece takes longer than alone."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How speech is written down: in which windows, with one reading or several, and whether languages are guessed."""

    windows: list[Window]
    hasty: bool
    check_language: bool


async def hear(run: JobRun) -> None:
    """Decode the sound, find the voice, write down the words."""
    try:
        if not run.wants("transcribe"):
            _conclude(run, StageStatus.SKIPPED)
            return
        audio = await _decode(run)
        if audio is not None:
            await _listen(run, audio)
    except MediaError:
        # The looking branch opens the same file: it refuses it too, or shows that only the sound is bad.
        _conclude(run, StageStatus.SKIPPED)
    finally:
        run.spoken.end()


async def _decode(run: JobRun) -> AudioClip | None:
    audio = None
    with run.board.running("audio") as record:
        async with (
            run.workshop.decoders.session(run.path, deadline=run.cutoff) as session,
            run.slot(Rank.FIRST),
        ):
            began_ms = run.board.now_ms()
            audio = await session.audio(max_s=_listenable_s(run))
            record.busy_ms = run.board.now_ms() - began_ms
        record.parts.append(audio)
        if not len(audio.samples):
            record.status = StageStatus.ABSENT
        run.workshop.latencies.observe("audio", ms=record.busy_ms, work=audio.duration_s)
    return audio


def _listenable_s(run: JobRun) -> float:
    """Return how many seconds of sound are worth decoding in the time left."""
    affordable_s = LISTEN_SHARE * run.cutoff.remaining() * 1e3 / run.workshop.latencies.rate_ms("audio")
    return min(max(SHORTEST_LISTEN_S, affordable_s), LONGEST_LISTEN_S)


async def _listen(run: JobRun, audio: AudioClip) -> None:
    if not len(audio.samples):
        _conclude(run, StageStatus.ABSENT)
        return
    spans = await _find_voice(run, audio)
    if spans:
        await _transcribe(run, audio, spans)
    elif spans is not None:
        _conclude(run, StageStatus.ABSENT)


async def _find_voice(run: JobRun, audio: AudioClip) -> tuple[SpeechSpan, ...] | None:
    vad = run.workshop.tools.vad
    spans = None
    with run.board.running("vad", model=vad.model) as record:
        find = partial(vad.run, audio, deadline=run.cutoff)
        spans = await run.unit(record, find, rank=Rank.FIRST, amount=audio.duration_s)
        record.parts.append(spans)
    return spans


async def _transcribe(run: JobRun, audio: AudioClip, spans: tuple[SpeechSpan, ...]) -> None:
    await run.planned.wait()
    if run.chosen is None:
        return
    asr = run.chosen.plan.asr
    with run.board.running("transcribe", model=run.workshop.tools.transcribe.model, plan=asr) as record:
        cut = await _cut(run, record, audio, spans)
        record.plan = f"{asr}, {len(cut.windows)} {'piece' if len(cut.windows) == 1 else 'pieces'}"
        async with asyncio.TaskGroup() as pieces:
            for number, window in enumerate(cut.windows):
                task = PieceTask(audio, window, asr, run.title_language(), cut.hasty, cut.check_language)
                pieces.create_task(_write_down(run, record, task, number=number))
        heard: tuple[HeardTranscript, ...] = run.spoken.items
        record.model = " + ".join(dict.fromkeys(part.model for part in heard)) or record.model
        if not all(part.complete for part in heard):
            record.fail(StageStatus.TIMED_OUT, ErrorCode.DEADLINE_EXCEEDED)


async def _cut(run: JobRun, record: StageRecord, audio: AudioClip, spans: tuple[SpeechSpan, ...]) -> Cut:
    """Find out the language, and cut the speech: thoroughly with time enough, quickly with a deadline."""
    assert run.chosen is not None  # noqa: S101  (waited for by the caller)
    plan, tool, hint = run.chosen.plan, run.workshop.tools.transcribe, run.title_language()
    task = SpeechTask(audio, spans, plan.asr, hint)
    if not run.has_deadline:
        windows = await run.unit(
            record, partial(tool.windows, task, deadline=run.cutoff), rank=Rank.CHAIN, key="languages"
        )
        return Cut(windows, plan.hasty_asr, check_language=False)
    if hint in (None, "en"):
        find = partial(tool.language, task, deadline=run.cutoff)
        language = await run.unit(record, find, rank=Rank.FIRST, key="language")
    else:
        language = hint  # each piece is checked on its own encoder pass, which costs less than one more pass
    _renew_load(run, spans, language)
    longest_s, hasty = _piece(run, spans, language)
    return Cut(cut_pieces(audio, spans, language, longest_s=longest_s), hasty, check_language=True)


def _renew_load(run: JobRun, spans: tuple[SpeechSpan, ...], language: str) -> None:
    """Tell the others what this clip still takes, now that it is known how much is said and in which language."""
    if run.chosen is None or run.probed is None:
        return
    expected = forecast(
        run.chosen.plan,
        probed=run.probed,
        latencies=run.workshop.latencies,
        quantile=TYPICAL,
        language=language,
        speech_s=_length_s(spans),
    )
    run.workshop.load.revise(run.job.job_id, expected)


def _piece(run: JobRun, spans: tuple[SpeechSpan, ...], language: str) -> tuple[float, bool]:
    """Return the length of pieces, and whether to be content with one reading: the best that is predicted to fit."""
    assert run.chosen is not None  # noqa: S101
    plan, speech_s = run.chosen.plan, _length_s(spans)
    lengths_s = PIECE_S["en" if language == "en" else "other"]
    readings = (True,) if plan.hasty_asr or language == "en" else (False, True)
    for longest_s in lengths_s:
        for hasty in readings:
            if _speech_fits(run, cost_key(language, plan.asr, hasty=hasty), speech_s, longest_s=longest_s, hasty=hasty):
                return longest_s, hasty
    return lengths_s[-1], True


def _speech_fits(run: JobRun, key: str, speech_s: float, *, longest_s: float, hasty: bool) -> bool:
    """Whether all pieces are predicted to end in time: alone if ``hasty``, else beside what others and looks need."""
    latencies, slots = run.workshop.latencies, run.workshop.slots.count
    pieces = piece_count(speech_s, longest_s=longest_s)
    piece_ms = latencies.predict_ms(key, work=speech_s / pieces, quantile=TYPICAL)
    remaining_ms = _words_due(run).remaining() * 1e3
    all_ms = (pieces * piece_ms + run.beside_speech_ms()) / slots
    return piece_ms * -(-pieces // slots) <= CHAIN_SHARE * remaining_ms and (hasty or all_ms <= remaining_ms)


async def _write_down(run: JobRun, record: StageRecord, task: PieceTask, *, number: int) -> None:
    """Have one piece written down. First words, as many as there are cores, are needed most of all."""
    due = _words_due(run)
    assert run.chosen is not None  # noqa: S101
    key = cost_key(task.window.language, task.model, hasty=task.hasty)
    with run.board.guard(record):
        part = await run.unit(
            record,
            partial(run.workshop.tools.transcribe.run, task, deadline=due),
            rank=Rank.CHAIN if run.fits or number < run.workshop.slots.count else Rank.LATER,
            turn=number,
            amount=task.window.duration_s,
            key=key,
            start_by=run.hopeful_until(key, due=due, work=task.window.duration_s),
        )
        record.parts.append(part)
        run.spoken.append(part)


def _words_due(run: JobRun) -> Deadline:
    """Return until when words must be there to be understood."""
    return run.cutoff.reserve(run.workshop.latencies.predict_ms("text", work=1, quantile=TYPICAL) / 1e3)


def _length_s(spans: tuple[SpeechSpan, ...]) -> float:
    return sum(span.end_s - span.start_s for span in spans)


def _conclude(run: JobRun, status: StageStatus) -> None:
    for name in LISTENING:
        run.board.conclude(name, status)

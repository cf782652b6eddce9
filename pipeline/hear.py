"""The listening branch: sound, voice, words. Strictly one after another, so it goes first everywhere."""

from functools import partial

from pipeline.job_run import JobRun
from pipeline.latency import TYPICAL
from pipeline.slot_queue import Rank
from pipeline.slots import NotBegun
from schemas.errors import ErrorCode, MediaError
from schemas.media import AudioClip
from schemas.perception import SpeechSpan
from schemas.result import StageStatus
from stages.speech_window import MAX_WINDOW_S
from stages.transcribe import SpeechTask, decoding_work

LISTENING = ("audio", "vad", "transcribe")

LISTEN_SHARE = 0.25
"""Share of the time left that decoding sound may take: what comes after it costs at least three times as much."""

SHORTEST_LISTEN_S = 10.0
"""Worth trying on any machine."""

LONGEST_LISTEN_S = 3600.0
"""Above every sensible limit on a clip's duration, which the probe enforces."""


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
        run.said.set()


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
    tool = run.workshop.tools.transcribe
    await run.planned.wait()
    if run.chosen is None:
        return
    plan = run.chosen.plan
    asr = plan.asr
    key = f"transcribe:{asr}"
    speech_s = sum(span.end_s - span.start_s for span in spans)
    with run.board.running("transcribe", model=tool.model, plan=asr) as record:
        # The thread stops by itself early enough for the words to be understood; what it has by then still counts.
        deadline = run.cutoff.reserve(run.workshop.latencies.predict_ms("text", work=1) / 1e3)
        hint = run.title_language()
        task = SpeechTask(audio=audio, spans=spans, model=asr, language_hint=hint, hasty=plan.hasty_asr)
        try:
            transcript = await run.unit(
                record,
                partial(tool.run, task, deadline=deadline),
                rank=Rank.CHAIN,
                amount=decoding_work(speech_s),
                key=key,
                start_by=deadline.reserve(_shortest_s(run, key, speech_s=speech_s)),
            )
        except NotBegun:
            run.partial_at_best = True
            raise
        record.parts.append(transcript)
        record.model = transcript.model
        if not transcript.complete:
            record.fail(StageStatus.TIMED_OUT, ErrorCode.DEADLINE_EXCEEDED)


def _shortest_s(run: JobRun, key: str, *, speech_s: float) -> float:
    """Return the seconds without which not even the first window of speech can be expected to be written down."""
    first = decoding_work(min(speech_s, MAX_WINDOW_S))
    return run.workshop.latencies.predict_ms(key, work=first, quantile=TYPICAL) / 1e3


def _conclude(run: JobRun, status: StageStatus) -> None:
    for name in LISTENING:
        run.board.conclude(name, status)

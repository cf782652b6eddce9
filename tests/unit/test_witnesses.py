"""Whom a verdict has heard, and that it claims nothing that whoever was not heard could deny."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from llm_engine.understanding import Origin, TextInsights
from pipeline.analyze import STAGES
from pipeline.evidence import Evidence
from pipeline.fusion import fuse
from schemas.errors import WarningCode
from schemas.media import AudioClip, MediaWarning
from schemas.perception import FrameDetections, FrameScene, FrameText, Polarity, SpeechSpan
from schemas.result import Basis, Judgement, ResultStatus, SpeechSegment, StageStatus, Witness
from schemas.stage import StageResult
from stages.sentiment import Feeling
from stages.transcribe import HeardTranscript
from tests.unit.fakes import VIDEO, caption, job

OK, ABSENT, LATE, FAILED, SKIPPED = (
    StageStatus.OK,
    StageStatus.ABSENT,
    StageStatus.TIMED_OUT,
    StageStatus.FAILED,
    StageStatus.SKIPPED,
)

TITLE, CAPTION, FIRST, SECOND = "Making bread", "SALE TODAY", "We knead the dough.", "Then we bake it well."

SOUND = AudioClip(np.zeros(64_000, np.float32), start_s=0.5)


def piece(text: str, start_s: float, end_s: float) -> HeardTranscript:
    said = SpeechSegment(t_start_s=start_s, t_end_s=end_s, text=text, score=0.9, language="en")
    return HeardTranscript("en", (said,), "fake", speech_s=end_s - start_s, span=SpeechSpan(start_s, end_s))


def insights(*, speech: str = f"{FIRST} {SECOND}", harm: float = 0.1, captions: str = CAPTION) -> TextInsights:
    texts = {Origin.TITLE: TITLE, Origin.SCREEN: captions, Origin.SPEECH: speech}
    chars = {origin: len(text) for origin, text in texts.items() if text}
    label, score = ("unsafe", harm) if harm >= 0.5 else ("safe", 1 - harm)
    safety = Judgement(label=label, score=score, sources={"title:threat": harm})
    return TextInsights(
        safety=safety, summary=TITLE, summary_by="quote", read=dict.fromkeys(("topics", "safety", "summary"), chars)
    )


def feelings(speech: str = f"{FIRST} {SECOND}", *, value: float = 0.0) -> tuple[Feeling, ...]:
    known = {Origin.TITLE: TITLE, Origin.SCREEN: CAPTION, Origin.SPEECH: speech}
    return tuple(Feeling(o, Polarity(value, "fake"), len(text)) for o, text in known.items() if text)


def evidence(*, want: frozenset[str] | None = None, **changes: tuple[Any, ...]) -> Evidence:
    """A clip with pictures, captions and four seconds of speech, all of it found; ``changes``: status and parts."""
    found: dict[str, tuple[Any, ...]] = {
        "detect": (OK, FrameDetections(0.4, ())),
        "scene": (OK, FrameScene(0.4, (), (), np.eye(1, 1280, dtype=np.float32)[0])),
        "unsafe": (OK, 0.01),
        "ocr": (OK, FrameText(0.4, (caption(CAPTION, 0.4),))),
        "audio": (OK, SOUND),
        "vad": (OK, (SpeechSpan(0, 2), SpeechSpan(2.5, 4))),
        "transcribe": (OK, piece(FIRST, 0, 2), piece(SECOND, 2.5, 4)),
        "sentiment": (OK, *feelings()),
        "text": (OK, insights()),
    }
    found |= changes
    stages = {name: StageResult(name, status=OK) for name in STAGES}
    stages |= {name: StageResult(name, status=status, parts=tuple(parts)) for name, (status, *parts) in found.items()}
    return Evidence(job(title=TITLE, want=want), stages, (), VIDEO, None, None, 0, ())


UNHEARD = {
    "transcribe": (LATE,),
    "text": (LATE, insights(speech="")),
    "sentiment": (LATE, *feelings("")),
}


def test_a_verdict_on_a_clip_that_was_wholly_read_rests_on_all_of_it():
    result = fuse(evidence())
    assert result.based_on.safety == Basis(read=dict.fromkeys(("pictures", "captions", "speech", "title"), 1))
    assert result.based_on.sentiment == Basis(read=dict.fromkeys(("captions", "speech", "title"), 1))
    assert result.safety is not None
    assert result.safety.label == "safe"
    assert result.sentiment is not None
    assert result.sentiment.label == "neutral"


def test_a_clip_whose_speech_nobody_has_heard_is_neither_safe_nor_neutral():
    result = fuse(evidence(**UNHEARD))
    assert (result.safety, result.sentiment) == (None, None)
    assert result.based_on.safety == Basis(
        read=dict.fromkeys(("pictures", "captions", "title"), 1), missing=(Witness.SPEECH,)
    )
    assert result.based_on.topics.missing == result.based_on.summary.missing == (Witness.SPEECH,)


def test_what_was_heard_may_accuse_although_the_rest_was_not():
    result = fuse(evidence(**UNHEARD | {"text": (LATE, insights(speech="", harm=0.9))}))
    assert result.safety is not None
    assert (result.safety.label, result.safety.score) == ("unsafe", 0.9)


def test_a_feeling_stands_and_says_whom_it_was_not_heard_from():
    result = fuse(evidence(**UNHEARD | {"sentiment": (LATE, *feelings("", value=0.9))}))
    assert result.sentiment is not None
    assert result.sentiment.label == "positive"
    assert result.based_on.sentiment.missing == (Witness.SPEECH,)


def test_half_of_the_speech_counts_as_half_a_witness():
    half = {
        "transcribe": (LATE, piece(FIRST, 0, 2)),
        "text": (LATE, insights(speech=FIRST)),
        "sentiment": (LATE, *feelings(FIRST)),
    }
    result = fuse(evidence(**half))
    assert result.based_on.safety.read["speech"] == pytest.approx(2 / 3.5, abs=0.001)
    assert result.safety is None
    assert (result.coverage.voice_s, result.coverage.speech_s) == (3.5, 2)
    assert result.coverage.unwritten == ((3, 4.5),)


def test_words_that_were_written_down_but_not_understood_were_not_read():
    result = fuse(evidence(text=(OK, insights(speech=FIRST)), sentiment=(OK, *feelings(FIRST))))
    share = len(FIRST) / len(f"{FIRST} {SECOND}")
    assert result.based_on.safety.read["speech"] == pytest.approx(share, abs=0.001)
    assert (result.safety, result.sentiment, result.status) == (None, None, ResultStatus.PARTIAL)


@pytest.mark.parametrize("status", [LATE, FAILED, SKIPPED])
@pytest.mark.parametrize(
    ("stage", "witness"),
    [("unsafe", "pictures"), ("ocr", "captions"), ("audio", "speech"), ("vad", "speech"), ("transcribe", "speech")],
)
def test_a_witness_is_missing_however_its_stage_was_kept_from_it(stage: str, witness: str, status: StageStatus):
    result = fuse(evidence(**{stage: (status,)}))
    assert witness in result.based_on.safety.missing
    assert result.safety is None


@pytest.mark.parametrize(("stage", "witness"), [("unsafe", "pictures"), ("ocr", "captions"), ("transcribe", "speech")])
def test_what_a_clip_does_not_have_is_no_witness(stage: str, witness: str):
    basis = fuse(evidence(**{stage: (ABSENT,)})).based_on.safety
    assert witness not in basis.read
    assert basis.missing == ()


def test_what_was_not_asked_for_is_no_witness():
    want = frozenset({"unsafe", "text"})
    result = fuse(evidence(want=want, ocr=(SKIPPED,), transcribe=(SKIPPED,), audio=(SKIPPED,), vad=(SKIPPED,)))
    assert result.based_on.safety == Basis(read={"pictures": 1, "title": 1})
    assert result.based_on.sentiment == Basis()
    assert result.safety is not None
    assert result.safety.label == "safe"


def test_looks_that_did_not_end_are_counted():
    result = fuse(evidence(unsafe=(LATE, 0.01, 0.02)))
    assert result.based_on.safety.read["pictures"] == pytest.approx(2 / 3, abs=0.001)


@pytest.mark.parametrize("transcribed", [(OK, piece(FIRST, 0, 2), piece(SECOND, 2.5, 4)), (ABSENT,)])
def test_sound_that_was_cut_may_hold_more_speech(transcribed: tuple[Any, ...]):
    cut = replace(
        SOUND, samples=SOUND.samples[:32_000], warnings=(MediaWarning(WarningCode.AUDIO_CUT, "only the first 2 s"),)
    )
    result = fuse(evidence(audio=(OK, cut), transcribe=transcribed))
    assert Witness.SPEECH in result.based_on.safety.missing
    assert result.safety is None


def test_a_mood_that_cannot_be_read_is_missing_of_speech_only():
    foreign = [replace(feeling, polarity=None) for feeling in feelings()]
    assert fuse(evidence(sentiment=(OK, foreign[0], foreign[1], feelings()[2]))).based_on.sentiment == Basis(
        read={"speech": 1}
    )
    unread = fuse(evidence(sentiment=(OK, *feelings()[:2], foreign[2])))
    assert unread.based_on.sentiment.missing == (Witness.SPEECH,)
    assert unread.sentiment is None
    assert unread.status is ResultStatus.COMPLETE

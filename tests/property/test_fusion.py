"""Fusion over any mixture of finished, late, failed and missing stages: it always gives an honest result."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_engine.understanding import Origin, TextInsights
from pipeline.analyze import STAGES
from pipeline.evidence import Evidence
from pipeline.fusion import fuse
from schemas.errors import ErrorCode
from schemas.media import AudioClip, Frame
from schemas.perception import FrameDetections, FrameScene, FrameText, Polarity, SpeechSpan
from schemas.result import Detection, FusedResult, Judgement, Label, ResultStatus, StageStatus, TextSpan, Witness
from schemas.stage import StageResult
from stages.sentiment import Feeling
from tests.unit.fakes import SOUND_ONLY, VIDEO, job, transcript

fractions = st.floats(0, 1)
boxes = st.tuples(fractions, fractions, fractions, fractions).map(
    lambda b: (min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3]))
)
times_s = st.sampled_from([0.4, 1.2, 2.0, 2.8, 3.6])


@st.composite
def detections(draw) -> FrameDetections:
    t_s = draw(times_s)
    items = [
        Detection(
            label=draw(st.sampled_from(["car", "person"])), score=draw(fractions), box=box, box_px=(0, 0, 9, 9), t_s=t_s
        )
        for box in draw(st.lists(boxes, max_size=4))
    ]
    return FrameDetections(t_s, tuple(items))


@st.composite
def readings(draw) -> FrameText:
    t_s = draw(times_s)
    span = {"score": 0.9, "t_start_s": t_s, "t_end_s": t_s}
    lines = [TextSpan(text=draw(st.text(max_size=20)), box=box, **span) for box in draw(st.lists(boxes, max_size=3))]
    return FrameText(t_s, tuple(lines))


def scene(t_s: float) -> FrameScene:
    return FrameScene(t_s, (Label(label="street or road", score=0.5),), (), np.eye(1, 1280, dtype=np.float32)[0])


def insights(chars: int, harm: float) -> list[TextInsights]:
    """What is told from so many characters of every text."""
    read = {told: dict.fromkeys(Origin, chars) for told in ("topics", "safety", "summary")}
    label, score = ("unsafe", harm) if harm >= 0.5 else ("safe", 1 - harm)
    safety = Judgement(label=label, score=score, sources={"speech:threat": harm})
    return [TextInsights(summary="a\x00b", keywords=("k\x1b",), safety=safety, read=read)]


PARTS = {
    "detect": st.lists(detections(), max_size=5, unique_by=lambda part: part.t_s),
    "scene": st.lists(times_s.map(scene), max_size=3),
    "unsafe": st.lists(fractions, max_size=3),
    "ocr": st.lists(readings(), max_size=4, unique_by=lambda part: part.t_s),
    "audio": st.just([AudioClip(np.zeros(1600, np.float32))]),
    "vad": st.just([(SpeechSpan(0.0, 0.1),)]),
    "transcribe": st.lists(st.text(max_size=30).map(transcript), max_size=1),
    "sentiment": st.builds(
        lambda value, chars: [Feeling(Origin.SPEECH, Polarity(value, "fake"), chars)],
        st.sampled_from([-0.5, 0.0, 0.5]),
        st.integers(0, 40),
    ),
    "text": st.builds(insights, st.integers(0, 40), fractions),
}


@st.composite
def stages(draw) -> dict[str, StageResult]:
    drawn = {}
    for name in STAGES:
        status = draw(st.sampled_from(StageStatus))
        wanted = status in {StageStatus.OK, StageStatus.TIMED_OUT, StageStatus.FAILED}
        parts = draw(PARTS[name]) if wanted and name in PARTS else []
        error = ErrorCode.DEADLINE_EXCEEDED if status is StageStatus.TIMED_OUT else None
        error = ErrorCode.MODEL_FAILED if status is StageStatus.FAILED else error
        drawn[name] = StageResult(name, status, tuple(parts), start_ms=1.0, end_ms=9.0, queue_ms=2.0, error=error)
    return drawn


@st.composite
def evidence(draw) -> Evidence:
    shown = sorted(draw(st.sets(times_s)))
    frames = [Frame(i, t_s, np.full((36, 64, 3), 40 * i, np.uint8), 64, 36) for i, t_s in enumerate(shown)]
    return Evidence(
        job=job(title=draw(st.sampled_from(["", "A title"]))),
        stages=draw(stages()),
        frames=tuple(frames),
        probed=draw(st.sampled_from([None, VIDEO, SOUND_ONLY])),
        chosen=None,
        refusal=None,
        packets_damaged=draw(st.integers(0, 3)),
        decoding_warnings=(),
    )


@given(evidence())
@settings(max_examples=150, deadline=None)
def test_fusion_never_fails_and_its_result_survives_the_wire(given):
    result = fuse(given)
    assert FusedResult.model_validate_json(result.model_dump_json()) == result


@given(evidence())
@settings(max_examples=150, deadline=None)
def test_complete_means_that_nothing_is_missing(given):
    result = fuse(given)
    missing = {StageStatus.TIMED_OUT, StageStatus.FAILED} & {report.status for report in result.stages.values()}
    if result.status is ResultStatus.COMPLETE:
        assert not missing
    if result.status is ResultStatus.REJECTED:
        assert result.error is not None
    assert set(result.stages) == set(STAGES)


@given(evidence())
@settings(max_examples=150, deadline=None)
def test_what_a_late_stage_had_is_kept_and_shown_in_order_of_time(given):
    result = fuse(given)
    assert list(result.timeline) == sorted(
        result.timeline, key=lambda event: (event.t_start_s, event.t_end_s, event.kind)
    )
    assert all(event.t_start_s <= event.t_end_s for event in result.timeline)
    if result.status is not ResultStatus.REJECTED and (heard := given.stages["transcribe"].parts):
        assert result.speech is not None
        assert len(result.speech.segments) == len(heard[-1].segments)


@given(evidence())
@settings(max_examples=100, deadline=None)
def test_no_control_character_reaches_the_result(given):
    shown = fuse(given)
    words = [shown.summary, *shown.keywords, *(span.text for span in shown.text)]
    words += [segment.text for segment in (shown.speech.segments if shown.speech else ())]
    assert all(ch.isprintable() or ch == "\u200d" for text in words for ch in text)


LACKING = {StageStatus.TIMED_OUT, StageStatus.FAILED, StageStatus.SKIPPED}

STAGES_OF = {
    Witness.PICTURES: ("unsafe",),
    Witness.CAPTIONS: ("ocr",),
    Witness.SPEECH: ("audio", "vad", "transcribe"),
}
"""All of these must have ended well for a witness to be wholly heard; the job asks for everything."""


@given(evidence())
@settings(max_examples=400, deadline=None)
def test_nothing_is_called_safe_while_a_witness_is_missing(given):
    result = fuse(given)
    lacking = {w for w, names in STAGES_OF.items() if LACKING & {given.stages[name].status for name in names}}
    if result.status is ResultStatus.REJECTED:
        return
    assert lacking <= set(result.based_on.safety.missing)
    if result.based_on.safety.missing:
        assert result.safety is None or result.safety.label == "unsafe"
        assert result.status is not ResultStatus.COMPLETE


@given(evidence())
@settings(max_examples=400, deadline=None)
def test_no_mood_is_called_neutral_while_a_text_is_missing(given):
    result = fuse(given)
    if result.based_on.sentiment.missing:
        assert result.sentiment is None or result.sentiment.label != "neutral"


@given(evidence())
@settings(max_examples=200, deadline=None)
def test_what_is_missing_is_what_was_not_wholly_read(given):
    told = fuse(given).based_on
    for basis in (told.safety, told.sentiment, told.topics, told.summary):
        assert {witness for witness, share in basis.read.items() if share < 1} <= set(basis.missing)
        assert not {witness for witness, share in basis.read.items() if share == 1} & set(basis.missing)
        assert list(basis.missing) == [witness for witness in Witness if witness in basis.missing]


@given(evidence())
@settings(max_examples=200, deadline=None)
def test_speech_is_either_written_down_or_said_not_to_be(given):
    found = fuse(given).coverage
    unwritten_s = sum(end_s - start_s for start_s, end_s in found.unwritten)
    assert abs(found.speech_s + unwritten_s - found.voice_s) < 0.01

"""From probabilities of a voice to spans of speech."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from schemas.perception import SpeechSpan
from stages.vad import FRAME, FRAME_S, MAX_SPAN_S, MIN_PAUSE_S, MIN_VOICE_S, PAD_S, Frames, find_speech, levels


def voice(*stretches: tuple[float, float], seconds: float = 10.0, rest: float = 0.02) -> Frames:
    """Return probabilities: 0.9 within the stretches, ``rest`` elsewhere."""
    probabilities = np.full(round(seconds / FRAME_S), rest, np.float32)
    for start_s, end_s in stretches:
        probabilities[round(start_s / FRAME_S) : round(end_s / FRAME_S)] = 0.9
    return probabilities


def spans(probabilities: Frames) -> list[SpeechSpan]:
    return list(find_speech(probabilities, duration_s=len(probabilities) * FRAME_S))


def test_silence_has_no_speech():
    assert spans(voice()) == []
    assert spans(voice(seconds=0)) == []


def test_a_voice_is_found_with_a_margin():
    (span,) = spans(voice((2, 4)))
    assert span.start_s == pytest.approx(2 - PAD_S, abs=FRAME_S)
    assert span.end_s == pytest.approx(4 + PAD_S, abs=FRAME_S)


def test_the_margin_stays_inside_the_clip():
    (span,) = spans(voice((0, 10)))
    assert span.start_s == 0
    assert span.end_s == pytest.approx(10, abs=FRAME_S)


def test_a_blip_is_no_voice():
    assert spans(voice((2, 2 + MIN_VOICE_S / 2), (5, 5 + MIN_VOICE_S / 2))) == []


def test_what_is_never_sure_is_no_voice():
    assert spans(voice(rest=0.45)) == []


def test_a_sure_voice_lasts_while_it_is_likely():
    probabilities = voice((2, 3))
    probabilities[round(3 / FRAME_S) : round(5 / FRAME_S)] = 0.4
    (span,) = spans(probabilities)
    assert span.end_s > 5


def test_short_pauses_join_and_long_ones_part():
    assert len(spans(voice((1, 2), (2 + MIN_PAUSE_S / 2, 3)))) == 1
    assert len(spans(voice((1, 2), (2 + MIN_PAUSE_S * 2, 4)))) == 2


def test_long_speech_is_split_where_the_voice_is_weakest():
    probabilities = voice((0, 25), seconds=25)
    probabilities[round(11 / FRAME_S)] = 0.4
    first, second = spans(probabilities)
    assert first.end_s == second.start_s == pytest.approx(11, abs=2 * FRAME_S)


@given(arrays.arrays(np.float32, st.integers(0, 1500), elements=st.floats(0, 1, width=32)))
def test_spans_ascend_and_lie_apart_inside_the_clip(probabilities: Frames):
    duration_s = len(probabilities) * FRAME_S
    found = list(find_speech(probabilities, duration_s=duration_s))
    edges = [edge for span in found for edge in (span.start_s, span.end_s)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= duration_s for edge in edges)
    assert all(0 < span.end_s - span.start_s <= MAX_SPAN_S + 2 * PAD_S for span in found)


def test_levels_are_root_mean_squares():
    samples = np.concatenate([np.full(FRAME, 0.5), np.zeros(FRAME), np.full(FRAME // 2, 0.5)]).astype(np.float32)
    assert levels(samples) == pytest.approx([0.5, 0, 0.5 / 2**0.5])
    assert levels(np.zeros(0, np.float32)).size == 0

"""Windows hold all speech, and their times lead back to the clip."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.media import SAMPLE_RATE_HZ, AudioClip
from schemas.perception import SpeechSpan
from stages.speech_window import KEPT_PAUSE_S, MAX_WINDOW_S, Window, cut_pieces, cut_windows, piece_count, quietest_s

HEARTBEAT = st.tuples(st.floats(0.05, 4), st.floats(0.3, 20))


@st.composite
def speech(draw: st.DrawFn) -> list[SpeechSpan]:
    spans, now_s = [], 0.0
    for pause_s, length_s in draw(st.lists(HEARTBEAT, max_size=12)):
        spans.append(SpeechSpan(now_s + pause_s, now_s + pause_s + length_s))
        now_s = spans[-1].end_s
    return spans


def in_one_language(spans: list[SpeechSpan]) -> list[Window]:
    return cut_windows(spans, ["en"] * len(spans))


@given(speech())
def test_every_second_of_speech_is_in_a_window(spans: list[SpeechSpan]):
    parts = [part for window in in_one_language(spans) for part in window.parts]
    for span in spans:
        for t_s in np.linspace(span.start_s, span.end_s, 7):
            assert any(part.start_s - 1e-6 <= t_s <= part.end_s + 1e-6 for part in parts)


@given(speech())
def test_no_window_is_too_long(spans: list[SpeechSpan]):
    assert all(window.duration_s <= MAX_WINDOW_S + 1e-6 for window in in_one_language(spans))


@given(speech(), st.lists(st.floats(0, 30), min_size=2, max_size=6))
def test_time_goes_forward_and_stays_in_the_window(spans: list[SpeechSpan], moments: list[float]):
    for window in in_one_language(spans):
        for where in (window.starts_at, window.ends_at):
            found = [where(t_s) for t_s in sorted(moments)]
            assert found == sorted(found)
            assert all(window.parts[0].start_s <= t_s <= window.parts[-1].end_s for t_s in found)


def test_short_pauses_stay_and_long_ones_shrink():
    (window,) = in_one_language([SpeechSpan(1, 2), SpeechSpan(2.8, 4), SpeechSpan(9, 10)])
    assert window.parts == (SpeechSpan(1, 4 + KEPT_PAUSE_S / 2), SpeechSpan(9 - KEPT_PAUSE_S / 2, 10))
    assert window.duration_s == pytest.approx(3 + 1 + KEPT_PAUSE_S)


def test_times_lead_back_across_a_pause_that_was_cut():
    (window,) = in_one_language([SpeechSpan(1, 3), SpeechSpan(9, 10)])
    assert window.starts_at(0.5) == pytest.approx(1.5)
    assert window.starts_at(2 + KEPT_PAUSE_S + 0.25) == pytest.approx(9.25)
    assert window.ends_at(2 + KEPT_PAUSE_S / 2) == pytest.approx(3 + KEPT_PAUSE_S / 2)
    assert window.starts_at(2 + KEPT_PAUSE_S / 2) == pytest.approx(9 - KEPT_PAUSE_S / 2)
    assert window.ends_at(99) == 10


def test_a_window_speaks_one_language():
    spans = [SpeechSpan(0, 2), SpeechSpan(3, 5), SpeechSpan(6, 8)]
    windows = cut_windows(spans, ["en", "zh", "zh"])
    assert [(window.language, window.parts[0].start_s, window.parts[-1].end_s) for window in windows] == [
        ("en", 0, 2),
        ("zh", 3, 8),
    ]


def test_slow_languages_get_shorter_windows_but_no_cut_sentences():
    sentences = [SpeechSpan(0, 6), SpeechSpan(6.5, 12.5), SpeechSpan(13, 24)]
    assert [len(cut_windows(sentences, [language] * 3)) for language in ("en", "zh")] == [2, 3]
    assert cut_windows(sentences, ["zh"] * 3)[2].parts == (SpeechSpan(13, 24),)


def test_work_is_shared_out_evenly():
    lengths = [window.duration_s for window in in_one_language([SpeechSpan(i * 2, i * 2 + 1.9) for i in range(9)])]
    assert len(lengths) == 2
    assert max(lengths) - min(lengths) < 4


def test_the_sound_of_the_parts_is_joined():
    audio = AudioClip(np.arange(20 * SAMPLE_RATE_HZ, dtype=np.float32))
    (window,) = in_one_language([SpeechSpan(1, 3), SpeechSpan(9, 10)])
    samples = window.samples(audio)
    assert len(samples) == round(window.duration_s * SAMPLE_RATE_HZ)
    assert samples[0] == SAMPLE_RATE_HZ
    assert samples[-1] == 10 * SAMPLE_RATE_HZ - 1


def hum(seconds: float, *, quiet: tuple[float, float] = (0, 0)) -> AudioClip:
    """Return a tone that is all but silent between two moments."""
    t = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    level = np.where((t >= quiet[0]) & (t < quiet[1]), 0.001, 0.5)
    return AudioClip((level * np.sin(2 * np.pi * 200 * t)).astype(np.float32))


SILENCE = AudioClip(np.zeros(300 * SAMPLE_RATE_HZ, np.float32))


@given(speech(), st.sampled_from([2.5, 3.5, 5.0, 6.0]))
def test_pieces_hold_every_second_of_speech_once_and_in_order(spans: list[SpeechSpan], longest_s: float):
    pieces = cut_pieces(SILENCE, spans, "en", longest_s=longest_s)
    parts = [part for piece in pieces for part in piece.parts]
    for before, after in pairwise(parts):
        assert before.end_s <= after.start_s + KEPT_PAUSE_S + 1e-6
        assert before.start_s < after.start_s
    for span in spans:
        for t_s in np.linspace(span.start_s, span.end_s, 7):
            assert any(part.start_s - 1e-6 <= t_s <= part.end_s + 1e-6 for part in parts)


@given(speech(), st.sampled_from([2.5, 3.5, 5.0, 6.0]))
def test_no_piece_is_longer_than_asked_for(spans: list[SpeechSpan], longest_s: float):
    pieces = cut_pieces(SILENCE, spans, "en", longest_s=longest_s)
    assert all(piece.duration_s <= longest_s + 1e-6 for piece in pieces)


def test_speech_without_a_pause_is_cut_where_it_is_quietest():
    audio = hum(8.0, quiet=(4.6, 4.9))
    pieces = cut_pieces(audio, [SpeechSpan(0, 8)], "en", longest_s=6.0)
    assert [piece.span.start_s for piece in pieces] == pytest.approx([0.0, 4.75], abs=0.15)
    assert quietest_s(audio, SpeechSpan(3, 6)) == pytest.approx(4.75, abs=0.15)


def test_speech_is_cut_at_its_pauses_first():
    spans = [SpeechSpan(0, 2.5), SpeechSpan(3, 5), SpeechSpan(5.5, 8)]
    pieces = cut_pieces(hum(9.0, quiet=(1.0, 1.3)), spans, "en", longest_s=5.0)
    assert [(piece.span.start_s, piece.span.end_s) for piece in pieces] == [(0, 5), (5.5, 8)]


def test_a_stretch_too_short_to_have_a_quiet_moment_is_cut_in_the_middle():
    assert quietest_s(hum(1.0), SpeechSpan(0.50, 0.53)) == pytest.approx(0.515)


@pytest.mark.parametrize(("speech_s", "longest_s", "pieces"), [(0.2, 3, 1), (6, 3, 2), (6.1, 3, 3), (11, 6, 2)])
def test_as_many_pieces_as_speech_needs(speech_s: float, longest_s: float, pieces: int):
    assert piece_count(speech_s, longest_s=longest_s) == pieces

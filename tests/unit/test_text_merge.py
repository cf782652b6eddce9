"""Lines of single frames, joined over time."""

import pytest

from schemas.perception import FrameText
from schemas.result import BoxFractions, TextSpan
from stages.text_merge import merge_text

BOTTOM: BoxFractions = (0.1, 0.8, 0.9, 0.9)
TOP: BoxFractions = (0.1, 0.1, 0.9, 0.2)


def frame(t_s: float, *lines: tuple[str, float, BoxFractions]) -> FrameText:
    spans = (TextSpan(text=text, score=score, box=box, t_start_s=t_s, t_end_s=t_s) for text, score, box in lines)
    return FrameText(t_s, tuple(spans))


def merged(*frames: FrameText) -> list[tuple[str, float, float]]:
    return [(s.text, s.t_start_s, s.t_end_s) for s in merge_text(frames, duration_s=10.0)]


def test_a_line_seen_throughout_lasts_the_whole_clip() -> None:
    caption = ("Lecture three", 0.9, BOTTOM)
    assert merged(frame(1, caption), frame(5, caption), frame(9, caption)) == [("Lecture three", 0.0, 10.0)]


def test_a_line_lasts_to_halfway_to_the_frames_that_do_not_show_it() -> None:
    assert merged(frame(1), frame(5, ("Title", 0.9, TOP)), frame(9)) == [("Title", 3.0, 7.0)]


def test_of_readings_that_differ_a_little_the_surest_is_kept() -> None:
    frames = frame(2, ("Al Models Downl0aded", 0.85, BOTTOM)), frame(8, ("AI Models Downl0aded", 0.95, BOTTOM))
    assert merged(*frames) == [("AI Models Downl0aded", 0.0, 10.0)]


def test_other_words_in_the_same_place_are_another_line() -> None:
    frames = frame(2, ("Source Code Ready", 0.9, BOTTOM)), frame(8, ("Models Converted", 0.9, BOTTOM))
    assert merged(*frames) == [("Source Code Ready", 0.0, 5.0), ("Models Converted", 5.0, 10.0)]


@pytest.mark.parametrize(("before", "after"), [("00:01:15", "00:01:16"), ("Frame 2", "Frame 4"), ("5", "25")])
def test_a_counter_is_a_new_line_each_time(before: str, after: str) -> None:
    assert len(merged(frame(2, (before, 0.9, TOP)), frame(8, (after, 0.9, TOP)))) == 2


def test_the_same_words_elsewhere_are_another_line() -> None:
    assert len(merged(frame(2, ("Sale", 0.9, TOP)), frame(8, ("Sale", 0.9, BOTTOM)))) == 2


def test_a_line_may_be_missed_in_one_frame_but_not_in_two() -> None:
    line = ("News at nine", 0.9, TOP)
    assert len(merged(frame(1, line), frame(3), frame(5, line))) == 1
    assert len(merged(frame(1, line), frame(3), frame(5), frame(7, line))) == 2


def test_equal_lines_in_one_frame_stay_apart() -> None:
    once = frame(5, ("Sale", 0.9, TOP), ("Sale", 0.8, TOP))
    assert len(merged(once)) == 2
    assert len(merged(once, once)) == 2


def test_no_frames_hold_no_text() -> None:
    assert merged() == []
    assert merged(frame(1)) == []

"""The accuracy report: how on-screen text is scored."""

import pytest

from benchmarks.captions import Caption, CaptionTruth, Counter, error_rate, load_caption_truth, score_captions
from schemas.result import TextSpan

COUNTING = Counter(text="{n}", fps=30, every=10, first=1)


def line(text: str, *, y: float = 0.5, x: float = 0.1, t_s: float = 1.0, until_s: float | None = None) -> TextSpan:
    box = (x, y, min(1.0, x + 0.2), y + 0.05)
    return TextSpan(text=text, score=0.9, box=box, t_start_s=t_s, t_end_s=t_s if until_s is None else until_s)


def is_found(caption: Caption, *lines: TextSpan) -> bool:
    return bool(score_captions(CaptionTruth((caption,)), lines, read_times_s=()).found)


def test_case_and_spaces_do_not_count() -> None:
    assert error_rate("Big Buck BUNNY", "big  buckbunny") == 0.0


def test_a_caption_may_have_one_wrong_character_in_ten() -> None:
    caption = Caption("0123456789")
    assert is_found(caption, line("01234x6789"))
    assert not is_found(caption, line("01234xx789"))


def test_a_caption_on_several_lines_is_found() -> None:
    peach = Caption("THE PEACH OPEN MOVIE PROJECT PRESENTS")
    assert is_found(peach, line("PRESENTS", y=0.6), line("THE PEACH OPEN MOVIE PROJECT", y=0.5))


def test_parts_of_one_row_are_read_from_left_to_right() -> None:
    assert is_found(Caption("left right"), line("right", x=0.6, y=0.50), line("left", x=0.1, y=0.51))


def test_lines_of_different_times_do_not_make_a_caption() -> None:
    assert not is_found(Caption("left right"), line("left", t_s=1.0), line("right", t_s=5.0, y=0.6))


def test_a_caption_read_at_another_time_is_missed() -> None:
    caption = Caption("Big Buck BUNNY", 25.0, 30.0)
    assert not is_found(caption, line("Big Buck BUNNY", t_s=3.0))
    assert is_found(caption, line("Big Buck BUNNY", t_s=24.0, until_s=26.0))


def test_text_that_is_not_listed_costs_nothing() -> None:
    assert is_found(
        Caption("Application Source Code Ready"), line("def main", y=0.1), line("Application Source Code Ready")
    )


def test_a_counter_is_one_caption_for_each_frame_that_was_read() -> None:
    score = score_captions(
        CaptionTruth(counter=COUNTING), [line("1", t_s=0.0), line("12", t_s=3.7)], read_times_s=[0.0, 3.7, 9.0]
    )
    assert score.found == ("1", "12")
    assert score.missed == ("28",)


def test_the_right_number_at_the_wrong_time_is_missed() -> None:
    score = score_captions(CaptionTruth(counter=COUNTING), [line("12", t_s=0.0)], read_times_s=[0.0, 3.7])
    assert score.found == ()


@pytest.mark.parametrize(
    ("name", "t_s", "shown"),
    [
        ("real/counting_numbers.mp4", 0.3, "1"),
        ("real/counting_numbers.mp4", 0.333, "2"),
        ("real/timecode_tone.mp4", 2.967, "00:02:29"),
        ("real/frames_numbered.mp4", 0.3, "Frame 10"),
    ],
)
def test_the_counters_show_what_the_frames_show(name: str, t_s: float, shown: str) -> None:
    counter = load_caption_truth()[name].counter
    assert counter is not None
    caption = counter.at(t_s)
    assert caption is not None
    assert caption.text == shown


def test_white_on_white_is_not_asked_for() -> None:
    counter = load_caption_truth()["real/frames_numbered.mp4"].counter
    assert counter is not None
    assert counter.at(7 / 30) is None

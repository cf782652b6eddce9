"""Where things are drawn: scales, lanes, bars, boxes."""

from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.gaps import listing
from pipeline.page.pictures import best_picture, save_pictures
from pipeline.page.scale import Scale, percent
from pipeline.page.timeline import MAX_ROWS, build_timeline
from pipeline.page.waterfall import build_waterfall
from pipeline.page.wording import clock, count_of, guess_lang, milliseconds, one_line, short_clock, span
from schemas.result import FusedResult, Media, ResultStatus, StageReport, StageStatus
from tests.browser import page_samples as samples


def places(*texts: str) -> list[float]:
    return [float(text.rstrip("%")) for text in texts]


@pytest.mark.parametrize("end", [0.04, 1, 3.4, 9.6, 61, 500, 520, 14_400, 360_000])
def test_an_axis_has_a_few_round_ticks(end: float) -> None:
    ticks = Scale(end).ticks()
    assert 3 <= len(ticks) <= 7
    assert ticks[0] == 0
    assert ticks[-1] <= end * 1.001
    assert f"{ticks[1]:.0e}"[0] in "125"


def test_places_are_percentages_inside_the_axis() -> None:
    scale = Scale(8)
    assert [scale.at(t) for t in (-1, 0, 2, 8, 9)] == ["0%", "0%", "25%", "100%", "100%"]
    assert scale.length(2, 4) == "25%"
    assert scale.length(2, 2, at_least=0.01) == "1%"
    assert percent(1 / 3) == "33.333%"


def test_marks_that_overlap_lie_in_different_rows() -> None:
    timeline = build_timeline(samples.crowded_result(), hues={f"thing {i}": 0 for i in range(14)})
    for lane in timeline.lanes:
        for row in lane.rows:
            assert all(a.t_end_s <= b.t_start_s + 1e-6 for a, b in pairwise(row))
        assert len(lane.rows) <= MAX_ROWS


def test_a_full_lane_says_how_many_marks_found_no_room() -> None:
    timeline = build_timeline(samples.crowded_result(), hues={f"thing {i}": 0 for i in range(14)})
    objects = next(lane for lane in timeline.lanes if lane.kind == "objects")
    assert sum(len(row) for row in objects.rows) + objects.left_out == 14


def test_every_kind_of_thing_has_its_lane_in_reading_order() -> None:
    timeline = build_timeline(samples.rich_result(), hues={"person": 0, "chair": 1, "laptop": 2})
    assert [lane.kind for lane in timeline.lanes] == ["shots", "objects", "text", "speech"]
    assert timeline.scale.end == 9.6


def test_marks_lie_where_their_times_say() -> None:
    timeline = build_timeline(samples.rich_result(), hues={"person": 0, "chair": 1, "laptop": 2})
    speech = timeline.lanes[-1].rows[0][1]
    x, width, end = places(speech.x, speech.width, speech.end)
    assert x == pytest.approx(100 * 4.3 / 9.6, abs=0.001)
    assert end == pytest.approx(100 * 8.8 / 9.6, abs=0.001)
    assert x + width == pytest.approx(end, abs=0.002)


def test_an_instant_at_the_very_end_stays_visible() -> None:
    result = samples.rich_result()
    last = result.objects[0].model_copy(update={"t_start_s": 9.6, "t_end_s": 9.6})
    timeline = build_timeline(result.model_copy(update={"objects": (last,)}), hues={"person": 0})
    mark = next(lane for lane in timeline.lanes if lane.kind == "objects").rows[0][0]
    assert places(mark.end)[0] == pytest.approx(100)
    assert places(mark.width)[0] > 1


def test_the_timeline_never_ends_before_what_lies_on_it() -> None:
    result = samples.rich_result().model_copy(update={"media": Media(duration_s=1)})
    assert build_timeline(result, hues={"person": 0, "chair": 1, "laptop": 2}).scale.end == 9.6


def test_a_result_without_times_has_a_scale_all_the_same() -> None:
    nothing = FusedResult(pipeline_version="0", job_id="j", video_id="v", status=ResultStatus.PARTIAL)
    assert build_timeline(nothing, hues={}).scale.end == 1
    assert build_waterfall(nothing, budget_ms=None).bars == ()


def test_bars_start_where_the_stage_started_and_show_its_waiting() -> None:
    fall = build_waterfall(samples.rich_result(), budget_ms=500)
    bar = next(bar for bar in fall.bars if bar.name == "unsafe")
    x, queue, run_x, run = places(bar.x, bar.queue_width, bar.run_x, bar.run_width)
    assert x == pytest.approx(100 * 60 / 520, abs=0.001)
    assert queue == pytest.approx(100 * 58 / 520, abs=0.001)
    assert run_x == pytest.approx(x + queue, abs=0.002)
    assert queue + run == pytest.approx(100 * 118 / 520, abs=0.002)
    assert places(fall.budget_x or "")[0] == pytest.approx(100 * 500 / 520, abs=0.001)


def test_stages_stand_in_the_order_they_started_and_idle_ones_last() -> None:
    names = [bar.name for bar in build_waterfall(samples.partial_result(), budget_ms=500).bars]
    assert names[:4] == ["probe", "audio", "frames", "detect"]
    assert names[-2:] == ["unsafe", "sentiment"]


def test_waiting_longer_than_the_whole_stage_is_cut_to_it() -> None:
    odd = StageReport(status=StageStatus.OK, start_ms=0, elapsed_ms=10, queue_ms=90)
    fall = build_waterfall(samples.rich_result().model_copy(update={"stages": {"x": odd}}), budget_ms=500)
    assert places(fall.bars[0].queue_width)[0] == pytest.approx(100 * 10 / 520, abs=0.001)


def test_without_a_deadline_there_is_no_budget_line() -> None:
    fall = build_waterfall(samples.rich_result(), budget_ms=None)
    assert fall.budget_x is None
    assert fall.scale.end == pytest.approx(391.4 * 1.04)


def test_boxes_are_the_fractions_of_the_result(tmp_path: Path) -> None:
    result = samples.rich_result()
    pictures = save_pictures(tmp_path, samples.frames(), result=result)
    assert [len(p.boxes) for p in pictures] == [1, 3, 2, 1]
    assert [len(p.text_boxes) for p in pictures] == [1, 1, 2, 1]
    box, found = pictures[0].boxes[0], result.detections[0]
    x, y, width, height = places(box.x, box.y, box.width, box.height)
    assert (x, y) == pytest.approx((100 * found.box[0], 100 * found.box[1]), abs=0.001)
    assert (x + width, y + height) == pytest.approx((100 * found.box[2], 100 * found.box[3]), abs=0.002)
    assert box.tag == "person 0.87 #1"


def test_the_same_label_has_the_same_colour_in_every_frame(tmp_path: Path) -> None:
    pictures = save_pictures(tmp_path, samples.frames(), result=samples.rich_result())
    hues = {box.tag.split()[0]: box.hue for picture in pictures for box in picture.boxes}
    assert hues == {"person": 0, "chair": 1, "laptop": 2}
    assert all(box.hue == hues[box.tag.split()[0]] for picture in pictures for box in picture.boxes)


def test_tags_that_would_cover_another_are_kept_for_the_large_view(tmp_path: Path) -> None:
    crowd = save_pictures(tmp_path, samples.frames(), result=samples.crowded_result())
    rooms = [box.tag_room for box in crowd[0].boxes]
    assert rooms.count("none") > 5
    assert rooms.count("any") >= 10


def test_tags_hang_where_there_is_room(tmp_path: Path) -> None:
    pictures = save_pictures(tmp_path, samples.frames(), result=samples.rich_result())
    sides = {box.tag: box.tag_side for box in pictures[1].boxes}
    assert sides == {"person 0.87 #1": "start", "person 0.87 #2": "end", "chair 0.87 #3": "end"}


def test_the_picture_with_the_most_on_it_stands_for_the_clip(tmp_path: Path) -> None:
    result = samples.rich_result().model_copy(update={"text": ()})
    pictures = save_pictures(tmp_path, samples.frames(), result=result)
    best = best_picture(pictures)
    assert best is not None
    assert best.t_s == 2.8
    assert best_picture(()) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00.0"), (3.24, "0:03.2"), (59.96, "1:00.0"), (61.5, "1:01.5"), (3723.4, "1:02:03")]
)
def test_times_read_like_a_players(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_words_for_numbers() -> None:
    assert (short_clock(2), short_clock(2.5)) == ("0:02", "0:02.5")
    assert (span(1, 2), span(1, 1.01)) == ("0:01.0 – 0:02.0", "0:01.0")
    assert [milliseconds(v) for v in (0.2, 412.4, 999.7, 1240)] == ["0 ms", "412 ms", "1.00 s", "1.24 s"]
    assert [count_of(n, "box") for n in (0, 1, 2)] == ["0 boxes", "1 box", "2 boxes"]
    assert [listing(list(x)) for x in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
    assert one_line("  ") == "(no name)"


@pytest.mark.parametrize(
    ("text", "lang"), [("第三讲", "zh"), ("東京タワー", "ja"), ("서울", "ko"), ("Budget 500 ms", ""), ("مرحبا", "")]
)
def test_a_script_is_known_by_its_letters(text: str, lang: str) -> None:
    assert guess_lang(text) == lang

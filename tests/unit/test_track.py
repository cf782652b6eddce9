"""Which detections are the same thing, and the summary of a clip."""

from schemas.perception import FrameDetections
from schemas.result import BoxFractions, Detection
from stages.track import assign_tracks, summarize


def frame(t_s: float, *things: tuple[str, BoxFractions]) -> FrameDetections:
    return FrameDetections(
        t_s, tuple(Detection(label=label, score=0.5, box=box, box_px=(0, 0, 1, 1), t_s=t_s) for label, box in things)
    )


def box(x: float, y: float = 0.4, size: float = 0.2) -> BoxFractions:
    return (x, y, x + size, y + size)


def numbers(*frames: FrameDetections) -> list[int | None]:
    return [item.track_id for item in assign_tracks(frames)]


def test_a_thing_that_stays_or_moves_a_little_keeps_its_number() -> None:
    assert numbers(frame(0, ("cat", box(0.1))), frame(1, ("cat", box(0.1))), frame(2, ("cat", box(0.2)))) == [0, 0, 0]


def test_a_thing_that_moves_less_than_its_own_size_keeps_its_number_without_overlap() -> None:
    tall: BoxFractions = (0.1, 0.1, 0.2, 0.9)
    beside: BoxFractions = (0.25, 0.1, 0.35, 0.9)
    assert numbers(frame(0, ("person", tall)), frame(1, ("person", beside))) == [0, 0]


def test_a_thing_elsewhere_is_another_one() -> None:
    assert numbers(frame(0, ("cat", box(0.0))), frame(1, ("cat", box(0.7)))) == [0, 1]


def test_another_class_in_the_same_place_is_another_thing() -> None:
    assert numbers(frame(0, ("cat", box(0.1))), frame(1, ("dog", box(0.1)))) == [0, 1]


def test_two_things_side_by_side_are_not_exchanged() -> None:
    frames = frame(0, ("cat", box(0.1)), ("cat", box(0.5))), frame(1, ("cat", box(0.55)), ("cat", box(0.12)))
    assert numbers(*frames) == [0, 1, 1, 0]


def test_a_thing_may_be_missed_in_one_frame_but_not_in_two() -> None:
    seen, unseen = frame(0, ("cat", box(0.1))), frame(1)
    assert numbers(seen, unseen, seen) == [0, 0]
    assert numbers(seen, unseen, unseen, seen) == [0, 1]


def test_a_much_larger_box_is_another_thing() -> None:
    assert numbers(frame(0, ("person", box(0.4, size=0.1))), frame(1, ("person", box(0.2, y=0.2, size=0.5)))) == [0, 1]


def test_a_box_without_area_matches_nothing_and_breaks_nothing() -> None:
    assert numbers(frame(0, ("cat", box(0.1, size=0))), frame(1, ("cat", box(0.1, size=0)))) == [0, 1]


def test_no_frames_have_no_tracks_and_no_summary() -> None:
    assert assign_tracks([]) == ()
    assert summarize([frame(0), frame(1)]) == ()


def test_a_summary_counts_what_is_seen_at_once_and_tells_from_when_to_when() -> None:
    frames = [
        frame(0, ("cat", box(0.1))),
        frame(1, ("cat", box(0.1)), ("cat", box(0.5))),
        frame(2),
        frame(3, ("dog", box(0))),
    ]
    cat, dog = summarize(frames)
    assert (cat.label, cat.max_count, cat.t_start_s, cat.t_end_s) == ("cat", 2, 0, 1)
    assert (dog.label, dog.max_count, dog.t_start_s, dog.t_end_s) == ("dog", 1, 3, 3)

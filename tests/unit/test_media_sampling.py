from hypothesis import given
from hypothesis import strategies as st

from schemas.media import ProbedMedia
from schemas.result import Media
from stages.media.sampling import NEAR, plan_frames


@st.composite
def clips(draw: st.DrawFn) -> ProbedMedia:
    gaps = draw(st.lists(st.sampled_from([0.0, 0.02, 0.04, 0.04, 0.04, 0.5, 7.0]), max_size=150))
    times = [0.0]
    for gap in gaps:
        times.append(times[-1] + gap)
    keys = draw(st.sets(st.sampled_from(times), max_size=20)) | {0.0}
    return media(times, sorted(keys))


def media(times: list[float], keys: list[float]) -> ProbedMedia:
    facts = Media(duration_s=times[-1] if times else 0, frame_count=len(times))
    return ProbedMedia(media=facts, frame_times_s=tuple(times), keyframe_times_s=tuple(keys))


def steady(seconds: float, *, fps: int = 25, key_every_s: float = 1000.0) -> ProbedMedia:
    times = [index / fps for index in range(round(seconds * fps))]
    return media(times, [t for index, t in enumerate(times) if index % round(key_every_s * fps) == 0])


@given(clip=clips(), count=st.integers(1, 12))
def test_a_plan_holds_as_many_distinct_existing_frames_as_it_can(clip: ProbedMedia, count: int) -> None:
    plan = plan_frames(clip, count=count, max_side_px=640)
    assert list(plan.times_s) == sorted(set(plan.times_s))
    assert set(plan.times_s) <= set(clip.frame_times_s)
    assert len(plan.times_s) == min(count, len(set(clip.frame_times_s)))


@given(clip=clips(), count=st.integers(1, 12))
def test_only_key_frames_are_decoded_exactly_if_the_plan_holds_nothing_else(clip: ProbedMedia, count: int) -> None:
    plan = plan_frames(clip, count=count, max_side_px=640)
    assert (plan.strategy == "keyframes") == (set(plan.times_s) <= set(clip.keyframe_times_s))


@given(
    seconds=st.floats(0.5, 60), count=st.integers(1, 12), key_every_s=st.sampled_from([0.04, 0.4, 1.0, 2.0, 5.0, 99.0])
)
def test_each_frame_lies_near_the_middle_of_its_stretch(seconds: float, count: int, key_every_s: float) -> None:
    clip = steady(seconds, key_every_s=key_every_s)
    if len(clip.frame_times_s) <= count:
        return
    stretch_s = (clip.frame_times_s[-1] + 0.04) / count
    for index, time_s in enumerate(plan_frames(clip, count=count, max_side_px=640).times_s):
        assert abs(time_s - (index + 0.5) * stretch_s) <= max(NEAR * stretch_s, 0.04) + 1e-9


def test_key_frames_are_taken_when_there_are_enough_near_enough() -> None:
    assert plan_frames(steady(10, key_every_s=2.0), count=4, max_side_px=640).strategy == "keyframes"
    assert plan_frames(steady(10, key_every_s=2.0), count=4, max_side_px=640).times_s == (2.0, 4.0, 6.0, 8.0)
    assert plan_frames(steady(10), count=4, max_side_px=640).strategy == "forward"


def test_where_asked_for_nothing_but_key_frames_is_taken_however_far_they_lie():
    plan = plan_frames(steady(20, key_every_s=9.0), count=4, max_side_px=640, key_frames_only=True)
    assert (plan.times_s, plan.strategy) == ((0.0, 9.0, 18.0), "keyframes")
    many = plan_frames(steady(20, key_every_s=1.0), count=4, max_side_px=640, key_frames_only=True)
    assert (len(many.times_s), many.strategy) == (4, "keyframes")


def test_a_lone_near_key_frame_is_taken_in_a_forward_plan() -> None:
    plan = plan_frames(steady(8, key_every_s=5.0), count=4, max_side_px=640)
    assert (plan.strategy, plan.times_s) == ("forward", (1.0, 3.0, 5.0, 7.0))


def test_one_frame_is_enough_for_a_plan() -> None:
    assert plan_frames(media([0.0], [0.0]), count=4, max_side_px=640).times_s == (0.0,)


def test_a_clip_without_pictures_gets_an_empty_plan() -> None:
    assert plan_frames(media([], []), count=4, max_side_px=640).times_s == ()


def test_the_pictures_of_a_slide_show_are_all_seen() -> None:
    slides = [0.0, 0.04, 10.0, 10.04, 100.0, 100.04]
    assert {0.0, 10.0, 100.0} <= {
        round(t, 0) for t in plan_frames(media(slides, [0.0]), count=4, max_side_px=640).times_s
    }

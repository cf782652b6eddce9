import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.media import Frame, FrameBatch, ProbedMedia
from schemas.result import Media, Shot
from stages.media.convert import to_frame, to_probed
from stages.media.limits import MediaLimits
from stages.media.reader import MediaReader
from stages.media.sampling import plan_frames
from stages.shots import MIN_SHOT_S, find_shots
from tests.conftest import SHARED_MEDIA

BEACH, NIGHT, BLACK = 0, 1, 2


def scene(kind: int, seed: int = 0) -> np.ndarray:
    """A picture of a scene; the seed moves things and light a little."""
    rng = np.random.default_rng(seed)
    image = np.zeros((90, 160, 3), np.int16)
    if kind == BEACH:
        image[:45], image[45:] = (120, 180, 240), (220, 200, 140)
    elif kind == NIGHT:
        image[:, :80], image[:, 80:] = (20, 20, 60), (70, 40, 20)
    y, x = rng.integers(10, 60), rng.integers(10, 120)
    if kind != BLACK:
        image[y : y + 20, x : x + 30] = (200, 60, 60)
        image += rng.integers(-4, 5, image.shape) + rng.integers(-6, 7)
    return np.clip(image, 0, 255).astype(np.uint8)


def clip(seconds: float, *, keys: tuple[float, ...] = (0.0,), fps: int = 25) -> ProbedMedia:
    times = tuple(index / fps for index in range(round(seconds * fps)))
    return ProbedMedia(Media(duration_s=seconds, frame_count=len(times)), frame_times_s=times, keyframe_times_s=keys)


def batch(*shown: tuple[float, int]) -> FrameBatch:
    frames = [Frame(i, t, scene(kind, i), 160, 90) for i, (t, kind) in enumerate(shown)]
    return FrameBatch(tuple(frames))


def cuts(shots: tuple[Shot, ...]) -> list[float]:
    return [shot.t_start_s for shot in shots[1:]]


def test_a_scene_that_only_moves_is_one_shot() -> None:
    shots = find_shots(batch((1, BEACH), (3, BEACH), (5, BEACH), (7, BEACH)), clip(8, keys=(0.0, 2.0, 4.0, 6.0)))
    assert [(shot.t_start_s, round(shot.t_end_s, 2)) for shot in shots] == [(0, 8)]


def test_a_cut_is_placed_at_the_key_frame_that_the_encoder_put_there() -> None:
    media = clip(8, keys=(0.0, 3.4))
    assert cuts(find_shots(batch((1, BEACH), (3, BEACH), (5, NIGHT), (7, NIGHT)), media)) == [3.4]


def test_of_several_key_frames_the_one_out_of_turn_is_the_cut() -> None:
    media = clip(8, keys=(0.0, 2.0, 4.0, 4.6, 6.6))
    assert cuts(find_shots(batch((3, BEACH), (5, NIGHT), (7, NIGHT)), media)) == [4.6]


def test_without_a_key_frame_the_cut_is_put_half_way() -> None:
    assert cuts(find_shots(batch((1, BEACH), (3, NIGHT)), clip(4))) == [2]


def test_a_fade_from_black_is_no_cut() -> None:
    assert cuts(find_shots(batch((1, BLACK), (3, BEACH)), clip(4, keys=(0.0, 2.0)))) == []


def test_no_shot_is_shorter_than_a_flash() -> None:
    media = clip(1, keys=(0.0, 0.2, 0.4, 0.6, 0.8))
    shown = [(index / 5, index % 2) for index in range(5)]
    shots = find_shots(batch(*shown), media)
    assert all(shot.t_end_s - shot.t_start_s >= MIN_SHOT_S - 1e-9 for shot in shots)


def test_a_clip_without_pictures_has_no_shots() -> None:
    assert find_shots(FrameBatch(()), ProbedMedia(Media(duration_s=3.0))) == ()


def test_a_clip_of_one_frame_is_one_shot() -> None:
    media = ProbedMedia(Media(duration_s=0.5, frame_count=1), frame_times_s=(0.0,), keyframe_times_s=(0.0,))
    assert find_shots(batch((0, BEACH)), media) == (Shot(t_start_s=0, t_end_s=0.5),)


@given(
    kinds=st.lists(st.sampled_from([BEACH, NIGHT, BLACK]), max_size=8),
    keys=st.sets(st.integers(1, 99), max_size=12),
    size=st.sampled_from([(1, 1), (2, 2), (37, 53), (90, 160)]),
)
def test_shots_cover_the_clip_without_a_gap(kinds: list[int], keys: set[int], size: tuple[int, int]) -> None:
    media = clip(10, keys=(0.0, *(key / 10 for key in sorted(keys))))
    height, width = size
    frames = tuple(
        Frame(i, i * 1.2 + 0.3, scene(kind, i)[:height, :width], width, height) for i, kind in enumerate(kinds)
    )
    shots = find_shots(FrameBatch(frames), media)
    assert shots[0].t_start_s == 0
    assert shots[-1].t_end_s == pytest.approx(10)
    assert all(a.t_end_s == b.t_start_s for a, b in pairwise(shots))


def truths() -> list[tuple[Path, list[float]]]:
    if not (SHARED_MEDIA / "manifest.json").is_file():
        return []
    listed = [
        (SHARED_MEDIA / e["path"], e["scene_cuts"])
        for e in json.loads((SHARED_MEDIA / "manifest.json").read_text("utf-8"))
        if "scene_cuts" in e
    ]
    return [*listed, (SHARED_MEDIA / "hard" / "00_base.mp4", [2.0])]


@pytest.mark.parametrize(("path", "truth"), truths(), ids=lambda value: getattr(value, "name", ""))
def test_known_cuts_are_found_and_no_others(path: Path, truth: list[float]) -> None:
    reader = MediaReader(str(path).encode(), MediaLimits(), lambda: None)
    media = to_probed(reader.probe())
    plan = plan_frames(media, count=8, max_side_px=320)
    key_only = plan.strategy == "keyframes"
    pictures = reader.pictures(plan.times_s, key_only=key_only, max_side_px=320)
    found = cuts(find_shots(FrameBatch(tuple(to_frame(p, i) for i, p in enumerate(pictures))), media))
    reader.close()
    assert found == pytest.approx(truth, abs=0.1)

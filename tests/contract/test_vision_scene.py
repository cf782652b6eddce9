"""Scene classification with real weights."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.media import Frame
from stages.backends.efficientnet import EfficientNetLite
from stages.base import Compute
from stages.scene import SceneClassifier, clip_scene
from tests.contract.vision_frames import sampled

NEVER = Deadline.never()


@pytest.fixture(scope="module")
def classifier() -> SceneClassifier:
    return SceneClassifier(EfficientNetLite.shipped(Compute()))


def test_the_embedding_has_unit_length_and_tells_clips_apart(clips: Path, classifier: SceneClassifier) -> None:
    shop, shop_later = sampled(clips / "real" / "store_aisle.mp4", 2)
    lecture, _ = sampled(clips / "composite" / "lecture_zh.mp4", 2)
    a, b, c = (classifier.run(frame, deadline=NEVER).embedding for frame in (shop, shop_later, lecture))
    assert a.shape == (1280,)
    assert np.linalg.norm(a) == pytest.approx(1.0, abs=1e-4)
    assert a @ b > 0.75 > a @ c  # what the result's schema promises of near-duplicates


def test_a_shop_is_a_shop(clips: Path, classifier: SceneClassifier) -> None:
    scenes = [classifier.run(frame, deadline=NEVER) for frame in sampled(clips / "real" / "store_aisle.mp4", 2)]
    assert clip_scene(scenes, [])[0].label == "shop"


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (37, 53), (360, 202), (90, 1600)])
def test_pictures_of_any_shape_are_classified(classifier: SceneClassifier, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 255, (*size, 3), np.uint8)
    seen = classifier.run(Frame(0, 0.0, image, size[1], size[0]), deadline=NEVER)
    assert np.isfinite(seen.embedding).all()
    assert all(0 <= label.score <= 1 for label in (*seen.places, *seen.things))


def test_black_frames_are_nowhere(classifier: SceneClassifier) -> None:
    black = partial(Frame, image=np.zeros((360, 640, 3), np.uint8), display_width=640, display_height=360)
    assert clip_scene([classifier.run(black(index=0, t_s=0.0), deadline=NEVER)], []) == ()

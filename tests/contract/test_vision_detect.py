"""Object detection with real weights: one contract for every network, and the clips' own truth."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.media import Frame, Rgb
from schemas.perception import FrameDetections
from stages.backends.efficientnet import EfficientNetLite
from stages.backends.ssd import SsdMobileNet
from stages.backends.yolox import Yolox
from stages.base import Compute
from stages.confirm import Confirmer, Look, settle
from stages.detect import Detector, ObjectModel
from stages.vocabulary import Coco
from tests.contract.vision_frames import HARD, sampled
from tests.unit.test_detect_yolox import OneObject

NEVER = Deadline.never()


def yolox() -> Yolox:
    """YOLOX around a network that always reports one zebra: its file is not in any registry."""
    return Yolox(OneObject(52 * 52 + 26 * 26, row=(3.0, 3.0, 1.0, 1.0, 0.9, 0.9), label="zebra"))


@pytest.fixture(scope="module", params=[lambda: SsdMobileNet.shipped(Compute()), yolox], ids=["ssd", "yolox"])
def network(request: pytest.FixtureRequest) -> ObjectModel:
    make: Callable[[], ObjectModel] = request.param
    return make()


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(SsdMobileNet.shipped(Compute()))


@pytest.fixture(scope="module")
def confirmer() -> Confirmer:
    return Confirmer(EfficientNetLite.shipped(Compute()))


def noise(height: int, width: int) -> Rgb:
    return np.random.default_rng(1).integers(0, 255, (height, width, 3), np.uint8)


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (37, 53), (360, 202), (90, 1600), (480, 640)])
def test_pictures_of_any_shape_give_known_labels_within_the_picture_best_first(
    network: ObjectModel, size: tuple[int, int]
) -> None:
    seen = network.look(noise(*size), floor=0.05)
    assert {sighting.label for sighting in seen} <= set(Coco.load().labels)
    assert [s.score for s in seen] == sorted((s.score for s in seen), reverse=True)
    for _, score, (x0, y0, x1, y1) in seen:
        assert 0.05 <= score <= 1
        assert 0 <= x0 <= x1 <= 1
        assert 0 <= y0 <= y1 <= 1


def test_a_higher_floor_leaves_the_best_of_the_same_sightings(network: ObjectModel) -> None:
    image = noise(240, 320)
    low, high = network.look(image, floor=0.1), network.look(image, floor=0.3)
    assert list(high) == [sighting for sighting in low if sighting.score >= 0.3]


def test_threads_that_share_a_network_see_what_one_alone_sees(network: ObjectModel) -> None:
    images = [noise(60 + i, 90) for i in range(4)]
    alone = [list(network.look(image, floor=0.1)) for image in images]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda image: list(network.look(image, floor=0.1)), images * 3))
    assert together == alone * 3


def believed(frames: Iterable[Frame], detector: Detector, confirmer: Confirmer) -> tuple[FrameDetections, ...]:
    looks = [Look(frame, detector.run(frame, deadline=NEVER)) for frame in frames]
    return confirmer.run(looks, deadline=NEVER)


@pytest.mark.parametrize(
    ("clip", "listed"),
    [
        ("composite/talk_en_jfk.mp4", {"person"}),
        ("composite/lecture_zh.mp4", {"person"}),
        ("real/store_aisle.mp4", {"person", "bowl"}),
        ("real/bottles.mp4", {"bottle"}),
        ("real/asl_thanks.mkv", {"person", "tv", "chair"}),
        ("real/parking_cars.mp4", {"car"}),
    ],
)
def test_listed_objects_are_found(
    clip: str, listed: set[str], clips: Path, clip_truth: dict[str, Any], detector: Detector, confirmer: Confirmer
) -> None:
    if clip not in clip_truth:
        pytest.skip("not among the clips that ship with the project")
    assert listed <= clip_truth[clip]["objects"].keys()
    found = believed(sampled(clips / clip, 5), detector, confirmer)
    assert listed <= {item.label for frame in found for item in frame.items}


def test_the_second_opinion_finds_more_and_invents_less(clips: Path, detector: Detector, confirmer: Confirmer) -> None:
    clip = clips / "real" / "fruit_conveyor.mp4"
    if not clip.is_file():
        pytest.skip("not among the clips that ship with the project")
    frames = sampled(clip, 6)
    looks = [Look(frame, detector.run(frame, deadline=NEVER)) for frame in frames]
    alone = {item.label for frame in settle([look.found for look in looks]) for item in frame.items}
    both = {item.label for frame in confirmer.run(looks, deadline=NEVER) for item in frame.items}
    fruit = {"apple", "broccoli", "orange"}
    assert len(both & fruit) >= len(alone & fruit)
    assert len(both - fruit) < len(alone - fruit)


def test_people_at_a_table_are_counted(clips: Path, detector: Detector, confirmer: Confirmer) -> None:
    for frame in believed(sampled(clips / "composite" / "lecture_zh.mp4", 3), detector, confirmer):
        assert sum(item.label == "person" for item in frame.items) == 4  # "4 seated"


def test_black_frames_hold_nothing(clips: Path, detector: Detector, confirmer: Confirmer) -> None:
    blank = partial(Frame, image=np.zeros((360, 640, 3), np.uint8), display_width=640, display_height=360)
    frames = [blank(index=i, t_s=float(i)) for i in range(4)]
    if (clips / HARD / "71_all_black.mp4").is_file():
        frames += sampled(clips / HARD / "71_all_black.mp4", 2)
    assert all(frame.items == () for frame in believed(frames, detector, confirmer))

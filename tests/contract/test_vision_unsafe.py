"""The unsafe classifier with real weights. No unsafe pictures are kept here: only that safe ones pass is tested."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.errors import ConfigurationError, ErrorCode
from schemas.media import Frame
from stages.backends.open_nsfw import OpenNsfw
from stages.base import Compute
from stages.unsafe import UnsafeClassifier
from tests.contract.vision_frames import sampled

NEVER = Deadline.never()


@pytest.fixture(scope="module")
def classifier(weights: Path) -> UnsafeClassifier:
    return UnsafeClassifier(OpenNsfw(weights / "open-nsfw" / "open-nsfw.onnx", compute=Compute()))


@pytest.mark.models
@pytest.mark.parametrize("clip", ["composite/talk_en_jfk.mp4", "composite/lecture_zh.mp4", "real/store_aisle.mp4"])
def test_safe_clips_pass(clip: str, clips: Path, classifier: UnsafeClassifier) -> None:
    assert all(classifier.run(frame, deadline=NEVER) < 0.5 for frame in sampled(clips / clip, 2))


@pytest.mark.models
@pytest.mark.parametrize("size", [(1, 1), (37, 53), (90, 1600)])
def test_pictures_of_any_shape_get_a_probability(classifier: UnsafeClassifier, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 255, (*size, 3), np.uint8)
    assert 0 <= classifier.run(Frame(0, 0.0, image, size[1], size[0]), deadline=NEVER) <= 1


@pytest.mark.models
def test_threads_agree(clips: Path, classifier: UnsafeClassifier) -> None:
    frames = sampled(clips / "real" / "store_aisle.mp4", 3)
    alone = [classifier.run(frame, deadline=NEVER) for frame in frames]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda frame: classifier.run(frame, deadline=NEVER), frames * 2)) == alone * 2


def test_missing_weights_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="halfsecond models pull") as caught:
        OpenNsfw(tmp_path / "none.onnx", compute=Compute())
    assert caught.value.code is ErrorCode.MODEL_MISSING


def test_a_file_that_is_no_network_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not a network")
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        OpenNsfw(tmp_path / "bad.onnx", compute=Compute())


def test_a_provider_that_is_not_installed_is_refused_and_the_installed_ones_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no CANNExecutionProvider here; installed: .*CPUExecutionProvider"):
        OpenNsfw(tmp_path / "none.onnx", compute=Compute(providers=("CANNExecutionProvider",)))

"""Detection: from a network's report to boxes in the clip."""

from collections.abc import Sequence

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, Rgb
from stages.backends.boxes import best_sightings
from stages.backends.ssd import decode
from stages.detect import Detector, Sighting


class SeesAtLeft:
    """Reports one dog at the left edge of whatever it is shown, and keeps the picture."""

    name = "fake 1"

    def __init__(self) -> None:
        self.shown: list[Rgb] = []

    def look(self, image: Rgb, *, floor: float) -> Sequence[Sighting]:
        self.shown.append(image)
        return [Sighting("dog", 0.9, (0.0, 0.25, 0.1, 0.75))]


def frame(index: int = 0) -> Frame:
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, :8] = 255
    return Frame(index=index, t_s=1.5, image=image, display_width=800, display_height=400)


def test_boxes_are_given_in_the_clips_own_size_although_the_frame_is_smaller() -> None:
    found = Detector(SeesAtLeft()).run(frame(), deadline=Deadline.never())
    (dog,) = found.items
    assert found.t_s == dog.t_s == 1.5
    assert dog.box == (0.0, 0.25, 0.1, 0.75)
    assert dog.box_px == (0, 100, 80, 300)


def test_every_second_frame_is_shown_mirrored_and_its_boxes_are_turned_back() -> None:
    network = SeesAtLeft()
    (dog,) = Detector(network).run(frame(index=1), deadline=Deadline.never()).items
    assert network.shown[0][0, -1, 0] == 255
    assert dog.box == pytest.approx((0.9, 0.25, 1.0, 0.75))
    assert dog.box_px == (720, 100, 800, 300)


def test_a_passed_deadline_stops_before_the_network_is_run() -> None:
    network = SeesAtLeft()
    with pytest.raises(DeadlineExceeded):
        Detector(network).run(frame(), deadline=Deadline.after(-1))
    assert not network.shown


def test_an_encoding_of_zeros_means_the_anchor_itself() -> None:
    anchors = np.array([[0.5, 0.25, 0.2, 0.1]], np.float32)  # y, x, h, w
    assert decode(np.zeros((1, 4), np.float32), anchors)[0] == pytest.approx([0.2, 0.4, 0.3, 0.6])


def test_an_encoding_moves_and_scales_its_anchor() -> None:
    anchors = np.array([[0.5, 0.5, 0.2, 0.1]], np.float32)
    encodings = np.array(
        [[10.0, -10.0, 5 * np.log(2), 0.0]], np.float32
    )  # one height down, one width left, twice as high
    assert decode(encodings, anchors)[0] == pytest.approx([0.35, 0.5, 0.45, 0.9])


def test_boxes_end_at_the_edge_of_the_picture() -> None:
    boxes = decode(np.zeros((1, 4), np.float32), np.array([[0.0, 1.0, 0.4, 0.4]], np.float32))
    assert boxes[0] == pytest.approx([0.8, 0.0, 1.0, 0.2])


def test_of_boxes_on_one_object_the_best_is_kept_but_another_class_may_share_its_place() -> None:
    boxes = np.array(
        [[0.1, 0.1, 0.5, 0.5], [0.11, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.5], [0.6, 0.6, 0.9, 0.9]], np.float32
    )
    scores = np.array([0.5, 0.7, 0.6, 0.9], np.float32)
    kept = best_sightings(boxes, scores, np.array([0, 0, 1, 0]), labels=["cat", "dog"], overlap=0.5)
    assert [(s.label, round(s.score, 2)) for s in kept] == [("cat", 0.9), ("cat", 0.7), ("dog", 0.6)]


def test_no_boxes_give_no_sightings() -> None:
    nothing = np.empty((0, 4), np.float32)
    assert best_sightings(nothing, nothing[:, 0], np.empty(0, np.int64), labels=[], overlap=0.5) == []

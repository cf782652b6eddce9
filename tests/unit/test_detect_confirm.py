"""Settling over the clip which sightings are real."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.media import Frame, Rgb
from schemas.perception import FrameDetections
from schemas.result import BoxFractions, Detection
from stages.backends.efficientnet import Classified
from stages.confirm import LIKELY, SURE, TOGETHER, Confirmer, Look, settle
from stages.vocabulary import Coco

LEFT: BoxFractions = (0.1, 0.2, 0.3, 0.6)
RIGHT: BoxFractions = (0.6, 0.2, 0.8, 0.6)


def sighting(label: str, score: float, t_s: float = 0.0, box: BoxFractions = LEFT) -> Detection:
    return Detection(label=label, score=score, box=box, box_px=(0, 0, 1, 1), t_s=t_s)


def clip(*frames: list[Detection]) -> list[FrameDetections]:
    timed = ([item.model_copy(update={"t_s": float(t_s)}) for item in items] for t_s, items in enumerate(frames))
    return [FrameDetections(float(t_s), tuple(items)) for t_s, items in enumerate(timed)]


def looks(*frames: list[Detection]) -> list[Look]:
    image = np.zeros((100, 200, 3), np.uint8)
    return [Look(Frame(i, found.t_s, image, 200, 100), found) for i, found in enumerate(clip(*frames))]


def labels(frames: tuple[FrameDetections, ...]) -> list[list[str]]:
    return [[item.label for item in frame.items] for frame in frames]


@dataclass
class Classifier:
    """Sees ``probability`` of ``label`` in every crop, and keeps the crops."""

    label: str = "apple"
    probability: float = 0.0
    name: str = "fake 1"
    crops: list[Rgb] = field(default_factory=list)

    def classify(self, image: Rgb) -> Classified:
        self.crops.append(image)
        probabilities = np.zeros(1000, np.float32)
        probabilities[Coco.load().twins[self.label][0]] = self.probability
        return Classified(probabilities, np.zeros(1280, np.float32))


def confirm(classifier: Classifier, unit: list[Look], **options: int) -> list[list[str]]:
    return labels(Confirmer(classifier, **options).run(unit, deadline=Deadline.never()))  # type: ignore[arg-type]


def test_alone_the_detector_is_believed_when_it_is_sure() -> None:
    assert labels(settle(clip([sighting("person", SURE)], []))) == [["person"], []]
    assert labels(settle(clip([sighting("person", SURE - 0.01)], []))) == [[], []]


def test_alone_the_detector_is_believed_when_two_frames_agree() -> None:
    assert labels(settle(clip([sighting("person", LIKELY)], [sighting("person", LIKELY)]))) == [["person"], ["person"]]
    assert labels(settle(clip([sighting("person", LIKELY)], [sighting("person", LIKELY / 2)]))) == [[], []]


def test_a_single_frame_has_no_other_to_agree_with() -> None:
    assert labels(settle(clip([sighting("person", LIKELY)]))) == [["person"]]


def test_much_weaker_sightings_of_a_real_class_are_dropped() -> None:
    found = settle(clip([sighting("person", 0.8), sighting("person", 0.3, box=RIGHT)]))
    assert [item.score for item in found[0].items] == [0.8]


def test_nothing_seen_is_nothing_found() -> None:
    assert settle([]) == ()
    assert labels(settle(clip([], []))) == [[], []]


def test_a_weak_sighting_is_real_when_the_classifier_names_it() -> None:
    classifier = Classifier("apple", TOGETHER - 0.25)
    assert confirm(classifier, looks([sighting("apple", 0.25)])) == [["apple"]]


def test_a_strong_sighting_is_dropped_when_the_classifier_sees_nothing_of_the_kind() -> None:
    assert confirm(Classifier("apple", 0.0), looks([sighting("bear", 0.7)], [sighting("bear", 0.7)])) == [[], []]


def test_classes_that_the_classifier_does_not_know_are_judged_by_the_detector() -> None:
    classifier = Classifier()
    assert confirm(classifier, looks([sighting("person", 0.8)])) == [["person"]]
    assert not classifier.crops


def test_one_answer_serves_every_class_seen_on_the_same_thing() -> None:
    classifier = Classifier("car", 0.9)
    unit = looks([sighting("cell phone", 0.7), sighting("car", 0.3), sighting("car", 0.28, box=RIGHT)])
    assert confirm(classifier, unit, questions=1) == [["car", "car"]]


def test_a_thing_that_the_detector_is_sure_of_is_called_what_the_classifier_is_sure_it_is() -> None:
    renamed = confirm(Classifier("car", 0.6), looks([sighting("cell phone", 0.7)]))
    assert renamed == [["car"]]
    assert confirm(Classifier("car", 0.6), looks([sighting("cell phone", 0.5)])) == [[]]
    assert confirm(Classifier("car", 0.4), looks([sighting("cell phone", 0.7)])) == [[]]


def test_the_strongest_sighting_of_each_class_is_asked_about_before_any_second_one() -> None:
    classifier = Classifier("apple", 0.0)
    unit = looks(
        [sighting("apple", 0.5), sighting("bear", 0.4, box=RIGHT)],
        [sighting("apple", 0.45, box=(0.0, 0.0, 1.0, 1.0))],
    )
    confirm(classifier, unit, questions=3)
    assert [crop.shape[:2] for crop in classifier.crops][2] == (100, 200)


def test_no_more_is_asked_than_allowed_and_the_rest_is_judged_by_the_detector() -> None:
    classifier = Classifier("apple", 0.0)
    unit = looks([sighting("bear", 0.74), sighting("apple", 0.72, box=RIGHT)])
    assert confirm(classifier, unit, questions=1) == [["apple"]]
    assert len(classifier.crops) == 1


def test_after_the_deadline_nothing_is_asked_and_the_detector_is_heard() -> None:
    classifier = Classifier("apple", 0.9)
    unit = looks([sighting("apple", 0.3), sighting("person", 0.8, box=RIGHT)])
    settled = Confirmer(classifier).run(unit, deadline=Deadline.after(-1))  # type: ignore[arg-type]
    assert labels(settled) == [["person"]]
    assert not classifier.crops


@pytest.mark.parametrize("box", [(0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0), (0.5, 0.0, 0.5, 1.0)])
def test_a_box_without_area_still_gives_a_picture_to_ask_about(box: BoxFractions) -> None:
    classifier = Classifier("apple", 1.0)
    confirm(classifier, looks([sighting("apple", 0.3, box=box)]))
    assert classifier.crops[0].size > 0

"""Kinds of place: the table, one frame, and the whole clip."""

import numpy as np
import pytest

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, Rgb
from schemas.perception import FrameDetections, FrameScene
from schemas.result import BoxFractions, Detection, Label
from stages.backends.efficientnet import Classified
from stages.places import Place, Places
from stages.scene import GRAPHIC, GROUP, MEETING, PORTRAIT, SceneClassifier, clip_scene, drawn
from stages.vocabulary import Coco, class_numbers, imagenet_names

EMBEDDING = np.zeros(1280, np.float32)
WHOLE: BoxFractions = (0.0, 0.0, 1.0, 1.0)
SMALL: BoxFractions = (0.0, 0.0, 0.1, 0.2)
BATHTUB, TOILET_SEAT, VALLEY, PROMONTORY = 435, 861, 979, 976


class Classifier:
    """Sees the given classes in every picture."""

    name = "fake 1"

    def __init__(self, seen: dict[int, float]) -> None:
        self._probabilities = np.zeros(1000, np.float32)
        self._probabilities[list(seen)] = list(seen.values())

    def classify(self, _image: Rgb) -> Classified:
        return Classified(self._probabilities, EMBEDDING)


def filmed() -> Rgb:
    return np.random.default_rng(0).integers(0, 255, (90, 160, 3), np.uint8)


def look(image: Rgb, seen: dict[int, float]) -> FrameScene:
    stage = SceneClassifier(Classifier(seen))  # type: ignore[arg-type]
    return stage.run(Frame(0, 2.0, image, 160, 90), deadline=Deadline.never())


def scene(**scores: float) -> FrameScene:
    places = tuple(Label(label=name.replace("_", " "), score=score) for name, score in scores.items())
    return FrameScene(0.0, places, (), EMBEDDING)


def found(*things: tuple[str, BoxFractions]) -> FrameDetections:
    return FrameDetections(
        0.0, tuple(Detection(label=label, score=0.7, box=box, box_px=(0, 0, 1, 1), t_s=0.0) for label, box in things)
    )


def names(labels: tuple[Label, ...]) -> list[str]:
    return [label.label for label in labels]


def test_the_tables_name_only_what_the_vocabularies_hold() -> None:
    coco, places = Coco.load(), Places.load().kinds
    labels = {place.label for place in places}
    assert len(coco.labels) == 80
    assert coco.labels[0] == "person"
    assert len(imagenet_names()) == 1000
    assert all(place.within is None or place.within in labels for place in places)
    assert all(place.furnished_by <= set(coco.labels) for place in places)


def test_class_lists_are_read_with_ranges_and_line_breaks() -> None:
    assert class_numbers("3-5, 9,\n12") == (3, 4, 5, 9, 12)
    assert class_numbers("") == ()


def test_a_class_that_imagenet_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="not an ImageNet class"):
        class_numbers("999-1000")


def test_a_wide_kind_takes_in_its_narrow_ones_and_counts_no_class_twice() -> None:
    narrow = [Place(label, frozenset({1, 2}), "outdoors", frozenset()) for label in ("sea", "beach")]
    places = Places([*narrow, Place("outdoors", frozenset({3}), None, frozenset())])
    probabilities = np.zeros(1000, np.float32)
    probabilities[1:4] = 0.3
    assert [(p.label, round(p.score, 1)) for p in places.of(probabilities, floor=0.1)] == [
        ("outdoors", 0.9),
        ("beach", 0.6),
        ("sea", 0.6),
    ]


def test_a_frame_is_where_its_things_are() -> None:
    seen = look(filmed(), {VALLEY: 0.4, PROMONTORY: 0.2})
    assert names(seen.places)[:2] == ["nature", "mountains"]
    assert names(seen.things) == ["valley", "promontory"]
    assert seen.t_s == 2.0


@pytest.mark.parametrize("brightness", [0, 128, 255])
def test_a_blank_frame_is_nowhere(brightness: int) -> None:
    seen = look(np.full((90, 160, 3), brightness, np.uint8), {VALLEY: 0.9})
    assert (seen.places, seen.things) == ((), ())


def test_a_frame_of_a_few_flat_colours_is_a_graphic() -> None:
    card = np.full((90, 160, 3), 20, np.uint8)
    card[30:60, 40:120] = 230
    assert names(look(card, {VALLEY: 0.9}).places) == [GRAPHIC]


def test_noise_is_filmed_and_tiny_pictures_do_not_matter() -> None:
    assert drawn(filmed()) == 0.0
    assert drawn(np.zeros((1, 1, 3), np.uint8)) == 0.0
    assert drawn(np.zeros((1, 50, 3), np.uint8)) == 0.0


def test_a_passed_deadline_stops_before_the_network_is_run() -> None:
    stage = SceneClassifier(Classifier({}))  # type: ignore[arg-type]
    with pytest.raises(DeadlineExceeded):
        stage.run(Frame(0, 0.0, filmed(), 160, 90), deadline=Deadline.after(-1))


def test_a_clip_is_where_its_frames_are_on_average() -> None:
    labels = clip_scene([scene(shop=0.8, nature=0.2), scene(shop=0.4)], [])
    assert [(label.label, round(label.score, 2)) for label in labels] == [("shop", 0.6), ("nature", 0.1)]


def test_a_bathroom_is_named_only_when_its_furniture_is_seen() -> None:
    bathroom = look(filmed(), {BATHTUB: 0.5, TOILET_SEAT: 0.2})
    assert names(clip_scene([bathroom], [found(("person", SMALL))])) == ["indoor room"]
    assert names(clip_scene([bathroom], [found(("toilet", SMALL))])) == ["bathroom"]


def test_a_wide_kind_is_kept_when_no_narrow_one_says_nearly_as_much() -> None:
    assert names(clip_scene([scene(nature=0.6, mountains=0.5)], [])) == ["mountains"]
    assert names(clip_scene([scene(nature=0.6, mountains=0.2)], [])) == ["nature", "mountains"]


def test_one_person_who_fills_the_frame_is_a_portrait_and_several_are_a_group() -> None:
    half: BoxFractions = (0.0, 0.0, 0.5, 1.0)
    assert names(clip_scene([scene()], [found(("person", half))])) == [PORTRAIT]
    assert names(clip_scene([scene()], [found(("person", half), ("person", half))])) == [GROUP]


def test_people_far_away_are_part_of_the_place() -> None:
    assert clip_scene([scene()], [found(("person", SMALL), ("person", SMALL))]) == ()


def test_people_among_chairs_are_in_a_meeting() -> None:
    company = found(("person", SMALL), ("person", SMALL), ("chair", SMALL), ("chair", SMALL))
    assert names(clip_scene([scene(restaurant=0.3)], [company])) == [MEETING, "restaurant"]


def test_one_odd_frame_makes_no_portrait() -> None:
    assert clip_scene([scene()], [found(("person", WHOLE)), found(), found()]) == ()


def test_no_frames_are_nowhere() -> None:
    assert clip_scene([], [found(("person", WHOLE))]) == ()

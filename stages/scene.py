"""Where a clip plays, what else is in its frames, and what they look like as a vector."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, Rgb
from schemas.perception import FrameDetections, FrameScene
from schemas.result import Detection, Label
from stages.geometry import area
from stages.places import Places, ranked
from stages.vocabulary import imagenet_names

if TYPE_CHECKING:
    from stages.backends.efficientnet import EfficientNetLite

FAINT = 0.1
"""Scores below this say nothing: a class by chance holds 0.001, and a kind of place has up to a hundred classes."""

BLANK_CONTRAST = 6.0
"""Standard deviation of the brightness (0-255) below which a frame shows nothing: black, or one colour."""

DRAWN_FLATNESS, DRAWN_COLOURS = 0.7, 0.85
"""A frame is drawn, not filmed, when this share of its pixels equals its neighbours to the bit and three colours (of
4096) cover this share of it. Cameras and their codecs leave noise on any wall: no filmed example passes 0.65."""

MOST = 0.6
"""A narrow kind that holds this share of its wider kind's score says the same, more precisely."""

CLOSE = 1 / 3
"""Share of the frame that people fill when they are the subject, and not in a place."""

MAJORITY = 0.5
"""A clip is a portrait, a group or a meeting when more than this share of its frames are."""

SAMPLED = 8
"""One row in so many is enough to measure a picture."""

SCREEN = "screen recording"
GRAPHIC = "title card or graphic"
PORTRAIT = "portrait"
GROUP = "group of people"
MEETING = "classroom or meeting room"


class SceneClassifier:
    """The ``scene`` stage: one frame in, its kinds of place, its things and its embedding out."""

    name = "scene"

    def __init__(self, network: "EfficientNetLite", *, things: int = 5) -> None:
        self._network = network
        self._things = things
        self._places = Places.load()
        self._names = imagenet_names()
        self.model = network.name

    def run(self, unit: Frame, *, deadline: Deadline) -> FrameScene:
        """Return what ``unit`` shows. A blank frame shows nothing; it still has an embedding."""
        if deadline.expired:
            raise DeadlineExceeded
        probabilities, embedding = self._network.classify(unit.image)
        if unit.image[::SAMPLED, ::SAMPLED].std() < BLANK_CONTRAST:
            return FrameScene(unit.t_s, (), (), embedding)
        places = self._places.of(probabilities, floor=FAINT)
        if (flatness := drawn(unit.image)) and not (places and places[0].label == SCREEN):
            places = (Label(label=GRAPHIC, score=flatness),)
        return FrameScene(unit.t_s, places, self._best_things(probabilities), embedding)

    def _best_things(self, probabilities: npt.NDArray[np.float32]) -> tuple[Label, ...]:
        best = np.argsort(-probabilities)[: self._things]
        return ranked({self._names[i]: float(probabilities[i]) for i in best}, floor=FAINT)


def drawn(image: Rgb) -> float:
    """Return the share of flat pixels if ``image`` is a drawing (a title card, a counter, a test picture), else 0."""
    inner, right, below = image[:-1:SAMPLED, :-1], image[:-1:SAMPLED, 1:], image[1::SAMPLED, :-1]
    if not inner.size:
        return 0.0
    flat = ((inner == right) & (inner == below)).all(axis=2)
    colours = (inner >> 4).astype(np.int32) @ np.array([256, 16, 1], np.int32)
    counts = np.sort(np.bincount(colours.ravel()))
    share = float(flat.mean())
    return share if share >= DRAWN_FLATNESS and counts[-3:].sum() >= DRAWN_COLOURS * colours.size else 0.0


def clip_scene(scenes: Sequence[FrameScene], found: Sequence[FrameDetections]) -> tuple[Label, ...]:
    """Return the clip's kinds of place, best first.

    Scores are means over ``scenes``; those of a portrait, a group and a meeting, which the classifier has no word for,
    are the shares of the frames in ``found`` (settled) that show one.
    """
    if not scenes:
        return ()
    places = Places.load()
    sums: dict[str, float] = {}
    for label in (label for scene in scenes for label in scene.places):
        sums[label.label] = sums.get(label.label, 0.0) + label.score / len(scenes)
    bare = places.unfurnished(frozenset(item.label for frame in found for item in frame.items))
    kept = {label: score for label, score in sums.items() if label not in bare}
    said_twice = {
        wide for label, score in kept.items() if (wide := places.wider(label)) and score >= MOST * kept.get(wide, 0.0)
    }
    named = {label: score for label, score in kept.items() if label not in said_twice}
    return ranked({**named, **_people(found)}, floor=FAINT)


def _people(found: Sequence[FrameDetections]) -> dict[str, float]:
    """Return the share of the frames that show a portrait, a group or a meeting, if most of them show the same."""
    kinds = [_company(frame.items) for frame in found]
    return {kind: share for kind in set(kinds) if kind and (share := kinds.count(kind) / len(kinds)) > MAJORITY}


def _company(items: Sequence[Detection]) -> str | None:
    persons = [item for item in items if item.label == "person"]
    chairs = sum(item.label == "chair" for item in items)
    if len(persons) > 1 and chairs > len(persons) // 2:
        return MEETING
    if sum(area(person.box) for person in persons) < CLOSE:
        return None
    return GROUP if len(persons) > 1 else PORTRAIT

"""Which of the detector's sightings are real, settled over the whole clip.

A small detector names something for every texture. Two things tell an object from a fancy: that other frames show it
too, and that a second network, asked about the crop alone, agrees. Scores of both are compared with the few thresholds
below. None is per class or per file; they were chosen once, over eleven different samplings of the example clips, where
a step either way finds fewer objects or invents more.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from schemas.deadline import Deadline
from schemas.media import Frame, Rgb
from schemas.perception import FrameDetections
from schemas.result import BoxFractions, Detection
from stages.geometry import overlap
from stages.vocabulary import Coco

if TYPE_CHECKING:
    from stages.backends.efficientnet import EfficientNetLite

SURE = 0.7
"""The detector is believed on its own. Its scores end near 0.8."""

LIKELY = 0.42
"""The detector is believed when two frames agree."""

AGREES = 0.85
"""Two frames agree when the weaker sighting reaches this share of the stronger."""

TOGETHER = 0.75
"""Detector's score + classifier's probability that make a class real. What is seen weakly (0.25) must be named outright
(0.5); only a detector at the very top of its scale needs no one."""

RENAMED = 1.25
"""Detector's score, for whatever it took a thing for, + classifier's probability of another class that make it that
other class. Asks more than TOGETHER, because only one of the two has named it."""

ROUNDS = 3
"""A class in doubt is asked about in at most this many frames, while questions last."""

SAME_THING = 0.5
"""Boxes that overlap this much (intersection over union) show one thing: one answer serves them all."""

KEPT = 2 / 3
"""Of a real class, sightings weaker than this share of the best are duplicates and shadows."""

MARGIN = 0.1
"""A crop is widened by this share of the box on each side: the classifier knows things in their surroundings."""

NARROWEST = 0.75
"""A crop's shorter side is at least this share of its longer one: it will be stretched to a square."""


class Look(NamedTuple):
    """One frame and what the detector saw in it."""

    frame: Frame
    found: FrameDetections


@dataclass(slots=True)
class _Opinion:
    """What the classifier said of one class so far.

    ``times_s``: the frames it was asked about. ``renamed``: things that the detector had taken for another class.
    """

    times_s: set[float] = field(default_factory=set)
    agreed: bool = False
    renamed: list[Detection] = field(default_factory=list)


Opinions = defaultdict[str, _Opinion]


class Confirmer:
    """The ``confirm`` stage: all looks at a clip in, the same frames with only the real objects out.

    Asks the classifier at most ``questions`` times a clip, about the strongest sighting of each class in doubt, then
    about its strongest in another frame.
    """

    name = "confirm"

    def __init__(self, classifier: "EfficientNetLite", *, questions: int = 8) -> None:
        self._classifier = classifier
        self._questions = questions
        self._twins = {label: list(numbers) for label, numbers in Coco.load().twins.items() if numbers}
        self.model = classifier.name

    def run(self, unit: Sequence[Look], *, deadline: Deadline) -> tuple[FrameDetections, ...]:
        """Return the frames of ``unit`` with what is real in them.

        When the deadline passes, asks no more: classes not yet asked about are judged by the detector alone.
        """
        opinions: Opinions = defaultdict(_Opinion)
        for look, sighting in islice(self._in_doubt(unit, opinions), self._questions):
            if deadline.expired:
                break
            self._ask(look, sighting, opinions)
        return _settled([look.found for look in unit], opinions)

    def _in_doubt(self, looks: Sequence[Look], opinions: Opinions) -> Iterator[tuple[Look, Detection]]:
        """Yield what to ask next, reading ``opinions`` as they grow."""
        sightings: dict[str, list[tuple[Look, Detection]]] = defaultdict(list)
        for look in looks:
            for item in look.found.items:
                if item.label in self._twins:
                    sightings[item.label].append((look, item))
        for candidates in sightings.values():
            candidates.sort(key=lambda pair: -pair[1].score)
        labels = sorted(sightings, key=lambda label: -sightings[label][0][1].score)
        for asked in range(ROUNDS):
            for label in labels:
                opinion = opinions[label]
                if not opinion.agreed and len(opinion.times_s) <= asked:
                    yield from islice((s for s in sightings[label] if s[1].t_s not in opinion.times_s), 1)

    def _ask(self, look: Look, about: Detection, opinions: Opinions) -> None:
        """Classify the crop of ``about`` and note the answer for every class seen on it. Mutates ``opinions``."""
        probabilities = self._classifier.classify(_crop(look.frame.image, about.box)).probabilities
        said = {label: float(probabilities[numbers].sum()) for label, numbers in self._twins.items()}
        seen = [i for i in look.found.items if i.label in said and overlap(i.box, about.box) > SAME_THING]
        for item in seen:
            opinion = opinions[item.label]
            opinion.times_s.add(item.t_s)
            opinion.agreed |= item.score + said[item.label] >= TOGETHER
        named, probability = max(said.items(), key=lambda answer: answer[1])
        if about.score + probability >= RENAMED and all(item.label != named for item in seen):
            score = about.score * probability
            opinions[named].agreed = True
            opinions[named].renamed.append(about.model_copy(update={"label": named, "score": score}))


def settle(found: Sequence[FrameDetections]) -> tuple[FrameDetections, ...]:
    """Return the frames with what the detector alone makes believable, for plans without a second opinion."""
    return _settled(found, defaultdict(_Opinion))


def _settled(seen: Sequence[FrameDetections], opinions: Opinions) -> tuple[FrameDetections, ...]:
    renamed = [item for opinion in opinions.values() for item in opinion.renamed]
    found = [FrameDetections(f.t_s, _best_first(f.items, (i for i in renamed if i.t_s == f.t_s))) for f in seen]
    best: dict[str, float] = {}
    for frame in found:
        for item in frame.items:
            best[item.label] = max(best.get(item.label, 0.0), item.score)
    alone = _believed(found, best)
    real = {label for label in best if opinions[label].agreed or (label in alone and not opinions[label].times_s)}
    return tuple(
        FrameDetections(frame.t_s, tuple(i for i in frame.items if i.label in real and i.score >= KEPT * best[i.label]))
        for frame in found
    )


def _best_first(*items: Iterable[Detection]) -> tuple[Detection, ...]:
    return tuple(sorted(chain(*items), key=lambda item: -item.score))


def _believed(found: Sequence[FrameDetections], best: dict[str, float]) -> set[str]:
    """Return the classes that the detector's own scores make believable."""
    agreeing: dict[str, int] = defaultdict(int)
    for frame in found:
        for label in {item.label for item in frame.items if item.score >= AGREES * best[item.label]}:
            agreeing[label] += 1
    needed = min(2, len(found))
    return {label for label, score in best.items() if score >= SURE or (score >= LIKELY and agreeing[label] >= needed)}


def _crop(image: Rgb, box: BoxFractions) -> Rgb:
    """Return the part of ``image`` around ``box``, at least one pixel big."""
    height, width = image.shape[:2]
    x0, y0, x1, y1 = box
    wide, high = (x1 - x0) * width * (1 + 2 * MARGIN), (y1 - y0) * height * (1 + 2 * MARGIN)
    shortest = NARROWEST * max(wide, high)
    left, right = _reach((x0 + x1) / 2 * width, max(wide, shortest), width)
    top, bottom = _reach((y0 + y1) / 2 * height, max(high, shortest), height)
    return image[top:bottom, left:right]


def _reach(centre: float, size: float, limit: int) -> tuple[int, int]:
    first = min(max(0, int(centre - size / 2)), limit - 1)
    return first, max(first + 1, min(limit, int(centre + size / 2) + 1))

"""Which objects are in a frame, and where."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, Rgb
from schemas.perception import FrameDetections
from schemas.result import BoxFractions, Detection
from stages.geometry import overlap

WHOLE: BoxFractions = (0.0, 0.0, 1.0, 1.0)
SQUARE_ENOUGH = 1.15  # sides in a ratio below this: a square cut from the picture would be the picture itself
SAME_THING = 0.5  # boxes of one class that share this much (intersection over union) are one object
EDGE = 0.01  # a box that ends this near to a close-up's edge goes on beyond it


class Sighting(NamedTuple):
    """One object as a network reports it. ``box``: x0, y0, x1, y1 as fractions of the picture, within it."""

    label: str
    score: float
    box: BoxFractions


class ObjectModel(Protocol):
    """A network that finds the 80 classes of COCO."""

    @property
    def name(self) -> str:
        """Name and version of the weights."""
        ...

    def look(self, image: Rgb, *, floor: float) -> Sequence[Sighting]:
        """Return what scores at least ``floor``, duplicates suppressed, best first. Thread-safe."""
        ...


class Detector:
    """The ``detect`` stage: one frame in, its objects out, weak ones included.

    A lone frame cannot tell a weak object from a fancy. What is kept is settled over the whole clip (``confirm.py``).
    """

    name = "detect"

    def __init__(self, network: ObjectModel, *, close_ups: bool = False, floor: float = 0.2) -> None:
        """``close_ups``: also look at the squares at the frame's ends, for small things, at three times the cost."""
        self._network = network
        self._close_ups = close_ups
        self._floor = floor
        self.model = network.name

    def run(self, unit: Frame, *, deadline: Deadline) -> FrameDetections:
        """Return what is seen in ``unit``, best first, boxes in the clip's own display size."""
        # Every second frame is looked at in a mirror. Where nothing moves, two sampled frames show the same picture and
        # the network would repeat its mistakes; mirrored, the second look is a second opinion at no extra cost.
        mirrored = unit.index % 2 == 1
        image = np.ascontiguousarray(unit.image[:, ::-1]) if mirrored else unit.image
        seen: list[Sighting] = []
        for view in (WHOLE, *(squares(image) if self._close_ups else ())):
            if deadline.expired:
                raise DeadlineExceeded
            seen += _placed(self._network.look(_cut(image, view), floor=self._floor), view)
        return FrameDetections(unit.t_s, tuple(_detection(s, unit, mirrored=mirrored) for s in _distinct(seen)))


def squares(image: Rgb) -> tuple[BoxFractions, ...]:
    """Return the squares at both ends of the longer side; none when the picture is square enough itself."""
    height, width = image.shape[:2]
    if max(width, height) < SQUARE_ENOUGH * min(width, height):
        return ()
    if width > height:
        return (0.0, 0.0, height / width, 1.0), (1 - height / width, 0.0, 1.0, 1.0)
    return (0.0, 0.0, 1.0, width / height), (0.0, 1 - width / height, 1.0, 1.0)


def _cut(image: Rgb, view: BoxFractions) -> Rgb:
    height, width = image.shape[:2]
    x0, x1 = round(view[0] * width), round(view[2] * width)
    y0, y1 = round(view[1] * height), round(view[3] * height)
    return image[y0:y1, x0:x1]


def _placed(seen: Iterable[Sighting], view: BoxFractions) -> Iterable[Sighting]:
    """Yield what was seen in ``view`` where it lies in the whole picture, without what the view cuts through."""
    width, height = view[2] - view[0], view[3] - view[1]
    for label, score, (x0, y0, x1, y1) in seen:
        ends = zip((x0, y0, 1 - x1, 1 - y1), (view[0], view[1], 1 - view[2], 1 - view[3]), strict=True)
        if not any(gap < EDGE and beyond > 0 for gap, beyond in ends):
            left, right = view[0] + x0 * width, min(1.0, view[0] + x1 * width)
            top, bottom = view[1] + y0 * height, min(1.0, view[1] + y1 * height)
            yield Sighting(label, score, (left, top, right, bottom))


def _distinct(seen: Iterable[Sighting]) -> list[Sighting]:
    """Return ``seen`` best first, each object once."""
    kept: list[Sighting] = []
    for sighting in sorted(seen, key=lambda s: -s.score):
        if not any(k.label == sighting.label and overlap(k.box, sighting.box) > SAME_THING for k in kept):
            kept.append(sighting)
    return kept


def _detection(sighting: Sighting, frame: Frame, *, mirrored: bool) -> Detection:
    x0, y0, x1, y1 = sighting.box
    if mirrored:
        x0, x1 = 1 - x1, 1 - x0
    width, height = frame.display_width, frame.display_height
    return Detection(
        label=sighting.label,
        score=sighting.score,
        box=(x0, y0, x1, y1),
        box_px=(round(x0 * width), round(y0 * height), round(x1 * width), round(y1 * height)),
        t_s=frame.t_s,
    )

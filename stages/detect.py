"""Which objects are in a frame, and where."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame, Rgb
from schemas.perception import FrameDetections
from schemas.result import BoxFractions, Detection


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

    def __init__(self, network: ObjectModel, *, floor: float = 0.2) -> None:
        self._network = network
        self._floor = floor
        self.model = network.name

    def run(self, unit: Frame, *, deadline: Deadline) -> FrameDetections:
        """Return what is seen in ``unit``, best first, boxes in the clip's own display size."""
        if deadline.expired:
            raise DeadlineExceeded
        # Every second frame is looked at in a mirror. Where nothing moves, two sampled frames show the same picture and
        # the network would repeat its mistakes; mirrored, the second look is a second opinion at no extra cost.
        mirrored = unit.index % 2 == 1
        image = np.ascontiguousarray(unit.image[:, ::-1]) if mirrored else unit.image
        seen = self._network.look(image, floor=self._floor)
        return FrameDetections(unit.t_s, tuple(_detection(sighting, unit, mirrored=mirrored) for sighting in seen))


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

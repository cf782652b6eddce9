"""From a network's raw boxes to the objects it means."""

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from stages.detect import Sighting

Corners = npt.NDArray[np.float32]
"""Boxes, shape (n, 4): x0, y0, x1, y1 as fractions of the picture."""


def best_sightings(
    boxes: Corners,
    scores: npt.NDArray[np.float32],
    classes: npt.NDArray[np.int64],
    *,
    labels: Sequence[str],
    overlap: float,
) -> list[Sighting]:
    """Return the boxes that survive non-maximum suppression within each class, best first.

    ``scores`` and ``classes`` have shape (n,). Boxes of a class that share more than ``overlap`` (intersection over
    union) are one.
    """
    if not len(boxes):
        return []
    rectangles = np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]])
    kept = cv2.dnn.NMSBoxesBatched(rectangles.tolist(), scores.tolist(), classes.tolist(), 0.0, overlap)
    best_first = sorted((int(i) for i in kept), key=lambda i: -scores[i])
    return [_sighting(labels[classes[i]], scores[i], boxes[i]) for i in best_first]


def _sighting(label: str, score: np.float32, box: npt.NDArray[np.float32]) -> Sighting:
    x0, y0, x1, y1 = map(float, box)
    return Sighting(label, float(score), (x0, y0, x1, y1))

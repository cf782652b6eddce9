"""The few operations on pictures that several networks need, done by OpenCV."""

from typing import cast

import cv2
import numpy as np
import numpy.typing as npt

from schemas.media import Rgb

Planes = npt.NDArray[np.float32]
"""One picture as a network wants it, shape (1, 3, height, width)."""

# OpenCV would spread one resize over all cores, under the feet of the models that own them (one slot, one core).
cv2.setNumThreads(1)


def resized(image: Rgb, *, width: int, height: int) -> Rgb:
    """Return ``image`` stretched to the given size; shrinking averages, so that small things do not flicker."""
    shrinks = width * height < image.shape[0] * image.shape[1]
    interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cast("Rgb", cv2.resize(image, (width, height), interpolation=interpolation))


def planes(image: Rgb, *, mean: float, scale: float, bgr: bool = False) -> Planes:
    """Return (``image`` - ``mean``) / ``scale`` as planes, in RGB order unless ``bgr``."""
    return cast("Planes", cv2.dnn.blobFromImage(image, 1 / scale, mean=(mean, mean, mean), swapRB=bgr))

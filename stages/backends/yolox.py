"""YOLOX (Apache-2.0), the better detector, for users who bring its official ONNX file."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from schemas.errors import ConfigurationError, ErrorCode
from schemas.media import Rgb
from stages.backends.boxes import best_sightings
from stages.backends.onnx import Tensor
from stages.backends.pictures import planes, resized
from stages.detect import Sighting
from stages.vocabulary import Coco

STRIDES_PX = (8, 16, 32)
PADDING_GREY = 114
OVERLAP = 0.45  # the release's own demo


class Network(Protocol):
    """What is needed of a loaded network; ``OnnxModel`` in production."""

    @property
    def name(self) -> str:
        """Name of the weights."""
        ...

    @property
    def input_shape(self) -> tuple[int | str | None, ...]:
        """Axes of the input."""
        ...

    def __call__(self, x: Tensor) -> list[Tensor]:
        """Return the outputs."""
        ...


class Yolox:
    """Finds COCO's 80 classes with any official YOLOX export: input (1, 3, h, w), output (1, cells, 85)."""

    def __init__(self, network: Network) -> None:
        """Take a loaded network. Raises ``ConfigurationError`` when its input is not that of a YOLOX export."""
        shape = network.input_shape
        if len(shape) != 4 or not isinstance(shape[2], int) or not isinstance(shape[3], int):
            raise ConfigurationError(ErrorCode.MODEL_FAILED, f"{network.name}: input {shape} is not that of YOLOX")
        self._network = network
        self._height_px, self._width_px = shape[2], shape[3]
        self._labels = Coco.load().labels
        self._corners_px, self._strides_px = grid(self._width_px, self._height_px)
        self.name = network.name

    def look(self, image: Rgb, *, floor: float) -> list[Sighting]:
        """Return what scores at least ``floor`` (objectness x class), best first."""
        height, width = image.shape[:2]
        ratio = min(self._width_px / width, self._height_px / height)
        fitted = resized(image, width=max(1, int(width * ratio)), height=max(1, int(height * ratio)))
        canvas = np.full((self._height_px, self._width_px, 3), PADDING_GREY, np.uint8)
        canvas[: fitted.shape[0], : fitted.shape[1]] = fitted
        (output,) = self._network(planes(canvas, mean=0.0, scale=1.0, bgr=True))
        return self._decode(output[0], size_px=(width * ratio, height * ratio), floor=floor)

    def _decode(self, cells: Tensor, *, size_px: tuple[float, float], floor: float) -> list[Sighting]:
        """Read ``cells`` (n, 85): x, y, log w, log h in strides, objectness, classes; the picture fills ``size_px``."""
        scores = cells[:, 4:5] * cells[:, 5:]
        where, classes = np.nonzero(scores >= floor)
        strides = self._strides_px[where, None]
        centre = (cells[where, :2] + self._corners_px[where]) * strides
        half = np.exp(cells[where, 2:4]) * strides / 2
        boxes = np.hstack([(centre - half) / size_px, (centre + half) / size_px]).clip(0, 1).astype(np.float32)
        return best_sightings(boxes, scores[where, classes], classes, labels=self._labels, overlap=OVERLAP)


def grid(width_px: int, height_px: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return each output cell's column and row (n, 2) and its stride in pixels (n,), finest stride first."""
    columns_rows, strides = [], []
    for stride in STRIDES_PX:
        rows, columns = np.mgrid[: height_px // stride, : width_px // stride]
        columns_rows.append(np.stack([columns.ravel(), rows.ravel()], axis=1))
        strides.append(np.full(rows.size, stride))
    return np.concatenate(columns_rows).astype(np.float32), np.concatenate(strides).astype(np.float32)

"""PP-OCRv6 (Apache-2.0): English and Chinese text, found and read with the models and the steps of rapidocr.

rapidocr's own ``RapidOCR`` is not used: it keeps settings and preprocessing on the object (a race between threads),
pads every line to its batch, opens its sessions itself and logs. Its box and character decoding are plain functions of
their arguments, and are called here on sessions of ours.
"""

from collections.abc import Callable
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.errors import ConfigurationError, ErrorCode
from schemas.media import Rgb
from stages.backends.onnx import open_session
from stages.backends.pictures import planes, resized
from stages.base import Compute

STEP_PX = 32  # the detector's sides are multiples of this
LINE_HEIGHT_PX = 48  # the recogniser reads lines of this height
STEP_WIDTH_PX = 8  # one character position
LONGEST_PX = 1600  # a longer line (about 90 letters) is squeezed

Corners = npt.NDArray[np.float32]
"""One line's corners in pixels of the picture, shape (4, 2): clockwise from the top left of the text."""


class FoundLine(NamedTuple):
    """Where a line of text is. ``score``: the detector's mean probability over the box."""

    corners: Corners
    score: float


class ReadLine(NamedTuple):
    """What a line says. ``score``: the mean probability of its characters, 0 when there are none."""

    text: str
    score: float


class RapidOcr:
    """Finds lines of text, then reads them one by one. Thread-safe and silent."""

    def __init__(self, detector: Path, recogniser: Path, *, compute: Compute) -> None:
        from rapidocr.ch_ppocr_det.utils import DBPostProcess
        from rapidocr.ch_ppocr_rec.utils import CTCLabelDecode
        from rapidocr.utils.process_img import get_rotate_crop_image

        self._detector = open_session(detector, compute=compute)
        self._recogniser = open_session(recogniser, compute=compute)
        characters = self._recogniser.metadata.get("character")
        if not characters:
            raise ConfigurationError(ErrorCode.MODEL_FAILED, f"{recogniser} does not name its characters")
        # rapidocr's own settings for this detector.
        self._boxes = DBPostProcess(thresh=0.3, box_thresh=0.5, unclip_ratio=1.6, use_dilation=True)
        self._characters = CTCLabelDecode(character=characters.splitlines())
        self._straightened: Callable[[Rgb, Corners], Rgb] = get_rotate_crop_image
        self.name = f"{recogniser.stem.removesuffix('_small').replace('_rec', '')}-small rapidocr {version('rapidocr')}"

    @classmethod
    def installed(cls, compute: Compute) -> "RapidOcr":
        """Open the models in the installed rapidocr package."""
        models = Path(str(files("rapidocr") / "models"))
        return cls(models / "PP-OCRv6_det_small.onnx", models / "PP-OCRv6_rec_small.onnx", compute=compute)

    def find(self, image: Rgb, *, max_side_px: int) -> list[FoundLine]:
        """Return the lines in ``image``, looked for at no more than ``max_side_px`` on the longer side."""
        height, width = image.shape[:2]
        ratio = min(1.0, max_side_px / max(height, width))
        small = resized(image, width=_stepped(width * ratio), height=_stepped(height * ratio))
        (heat,) = self._detector(planes(small, mean=127.5, scale=127.5, bgr=True))
        corners, scores = self._boxes(heat, (height, width))
        return [FoundLine(np.asarray(c, np.float32), float(s)) for c, s in zip(corners, scores, strict=True)]

    def read(self, image: Rgb, line: FoundLine) -> ReadLine:
        """Return what ``line`` of ``image`` says."""
        strip = self._straightened(image, line.corners)
        wanted = min(LONGEST_PX, max(STEP_WIDTH_PX, round(LINE_HEIGHT_PX * strip.shape[1] / strip.shape[0])))
        width = -(-wanted // STEP_WIDTH_PX) * STEP_WIDTH_PX
        sized = resized(strip, width=width, height=LINE_HEIGHT_PX)
        (characters,) = self._recogniser(planes(sized, mean=127.5, scale=127.5, bgr=True))
        ((text, score), *_), _ = self._characters(characters)
        return ReadLine(text, float(score))


def _stepped(side_px: float) -> int:
    return max(STEP_PX, round(side_px / STEP_PX) * STEP_PX)

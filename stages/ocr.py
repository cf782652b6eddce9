"""What is written in a frame."""

import unicodedata
from typing import TYPE_CHECKING

import numpy as np

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import Frame
from schemas.perception import FrameText
from schemas.result import BoxFractions, TextSpan

if TYPE_CHECKING:
    from stages.backends.rapid_ocr import FoundLine, RapidOcr

READABLE = 0.8
"""Lines whose characters are surer than this on average are text. Bark, cloth and logos read as letters stay below."""

READABLE_ALONE = 0.9
"""A single character must be surer: many things look like an l or an o."""

CLEARLY_TEXT = 0.8
"""A box that the finder is this sure of holds text, whatever is read in it."""

LONGEST_LINE = 300
"""Characters of one line that are kept."""


class TextReader:
    """The ``ocr`` stage: one frame in, its lines out, top to bottom.

    Looking for text costs the same whether there is any or not, and grows with the square of ``max_side_px``; reading
    costs by the length of the lines. ``max_lines`` bounds it: the tallest lines are read, which are the captions.
    """

    name = "ocr"

    def __init__(self, engine: "RapidOcr", *, max_side_px: int = 448, max_lines: int = 12) -> None:
        self._engine = engine
        self._max_side_px = max_side_px
        self._max_lines = max_lines
        self.model = engine.name

    def run(self, unit: Frame, *, deadline: Deadline) -> FrameText:
        """Return the lines in ``unit``. Checks ``deadline`` before each of them."""
        spans: list[TextSpan] = []
        if deadline.expired:
            raise DeadlineExceeded
        found = self._engine.find(unit.image, max_side_px=self._max_side_px)
        for line in sorted(found, key=_height_px, reverse=True)[: self._max_lines]:
            if deadline.expired:
                raise DeadlineExceeded
            spans += self._read(unit, line) or self._read_as_two(unit, line)
        return FrameText(unit.t_s, tuple(sorted(spans, key=lambda span: (span.box[1], span.box[0]))))

    def _read(self, frame: Frame, line: "FoundLine") -> list[TextSpan]:
        """Return the line as a span, or nothing when it cannot be read."""
        reading = self._engine.read(frame.image, line)
        text, score = cleaned(reading.text), min(1.0, reading.score)
        if not is_text(text, score):
            return []
        return [TextSpan(text=text, score=score, box=_box(line, frame), t_start_s=frame.t_s, t_end_s=frame.t_s)]

    def _read_as_two(self, frame: Frame, line: "FoundLine") -> list[TextSpan]:
        """Return the upper and lower half as spans, or nothing unless both can be read.

        Titles set tightly in two lines are found as one box, and two lines read as one make no sense.
        """
        if line.score < CLEARLY_TEXT:
            return []
        upper, lower = (self._read(frame, half) for half in _halves(line))
        return [*upper, *lower] if upper and lower else []


def cleaned(text: str) -> str:
    """Return ``text`` on one line, without control characters, of bounded length."""
    shown = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text)
    return " ".join(shown.split())[:LONGEST_LINE]


def is_text(text: str, score: float) -> bool:
    """Whether a reading is believed to be writing: at least one letter or digit, and sure enough."""
    if not any(c.isalnum() for c in text):
        return False
    return score >= (READABLE if len(text) > 1 else READABLE_ALONE)


def _halves(line: "FoundLine") -> tuple["FoundLine", "FoundLine"]:
    top_left, top_right, bottom_right, bottom_left = line.corners
    left, right = (top_left + bottom_left) / 2, (top_right + bottom_right) / 2
    upper = np.stack([top_left, top_right, right, left])
    lower = np.stack([left, right, bottom_right, bottom_left])
    return line._replace(corners=upper), line._replace(corners=lower)


def _height_px(line: "FoundLine") -> float:
    """Height of the letters: the shorter side of the (possibly slanted) box."""
    across, down = line.corners[1] - line.corners[0], line.corners[3] - line.corners[0]
    return float(min((across @ across) ** 0.5, (down @ down) ** 0.5))


def _box(line: "FoundLine", frame: Frame) -> BoxFractions:
    height, width = frame.image.shape[:2]
    x0, y0 = line.corners.min(axis=0)
    x1, y1 = line.corners.max(axis=0)
    return (_share(x0, width), _share(y0, height), _share(x1, width), _share(y1, height))


def _share(pixels: float, whole: int) -> float:
    return min(1.0, max(0.0, float(pixels) / whole))

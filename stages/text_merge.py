"""The lines read in single frames, joined to what stood on the screen, from when to when."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz.distance import Levenshtein

from schemas.perception import FrameText
from schemas.result import BoxFractions, TextSpan
from stages.geometry import area

ALIKE = 0.8
"""Share of characters (by edit distance) in which two readings of one line agree."""

SAME_PLACE = 0.3
"""Share of the smaller box that must lie in the other for two readings to be of one line."""

GAP = 1
"""Frames in between in which a line may have been missed."""


@dataclass(slots=True)
class _Line:
    best: TextSpan
    last: TextSpan
    first_frame: int
    last_frame: int


def merge_text(frames: Sequence[FrameText], *, duration_s: float) -> tuple[TextSpan, ...]:
    """Return each line once, in the order they appear, worded as in its surest reading.

    ``frames`` ascend in time. A frame speaks for the time around it: a line lasts from halfway to the frame before the
    first that shows it, to halfway to the frame after the last; the clip's ends bound it.
    """
    lines: list[_Line] = []
    for index, frame in enumerate(frames):
        alive = [line for line in lines if index - line.last_frame <= 1 + GAP]
        for span in frame.lines:
            line = next((line for line in alive if line.last_frame != index and same_line(line.last, span)), None)
            if line is None:
                lines.append(_Line(span, span, index, index))
                continue
            line.last, line.last_frame = span, index
            line.best = max(line.best, span, key=lambda s: s.score)
    edges = _edges([frame.t_s for frame in frames], duration_s)
    return tuple(
        line.best.model_copy(update={"t_start_s": edges[line.first_frame], "t_end_s": edges[line.last_frame + 1]})
        for line in lines
    )


def same_line(a: TextSpan, b: TextSpan) -> bool:
    """Whether two readings are of the same line: same digits, nearly the same letters, and the same place.

    Digits must agree to the last: "00:01:15" and "00:01:16" are alike, but a clock is not one line.
    """
    if _digits(a.text) != _digits(b.text) or not _share_place(a.box, b.box):
        return False
    return Levenshtein.normalized_similarity(a.text.casefold(), b.text.casefold()) >= ALIKE


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdigit())


def _share_place(a: BoxFractions, b: BoxFractions) -> bool:
    common = area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))
    return common > SAME_PLACE * min(area(a), area(b))


def _edges(times_s: Sequence[float], duration_s: float) -> list[float]:
    """Return where each frame's time begins, and where the last one's ends."""
    if not times_s:
        return []
    middles = [(earlier + later) / 2 for earlier, later in pairwise(times_s)]
    return [0.0, *middles, max(duration_s, times_s[-1])]

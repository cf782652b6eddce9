"""Where one shot ends and the next begins, told from few frames. Pure.

Two sampled frames that look different say that there is a cut between them, but not where. Encoders do: they put a key
frame at a cut, out of turn. So a boundary is a key frame between two frames that differ; without one they must differ
more, and the boundary is the middle between them. A cut between two frames that look alike is not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from schemas.media import FrameBatch, ProbedMedia, Rgb
from schemas.result import Shot

MIN_SHOT_S = 0.4
"""Anything shorter is a flash, or a clip that changes with every frame."""

_GRID = (4, 6)
_CELLS_PER_BLOCK = 6
_COLOUR_LEVELS = 8
_BLACK = 0.05
_MAX_CUTS_IN_GAP = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """How much two pictures differ, each in [0, 1]: which colours there are, and what is where."""

    colours: float
    layout: float

    def exceeds(self, other: "Difference") -> bool:
        """Whether both are at least as large."""
        return self.colours >= other.colours and self.layout >= other.layout


# Measured on 31 clips with 4, 6 and 8 frames each: over cuts colours differed by 0.45-0.77 and the layout by 0.20-0.36.
# Moving cameras and changing exposure reached 0.76 in colours, but no more than 0.17 (0.20 without a key frame between)
# in layout.
_WITH_KEY = Difference(colours=0.40, layout=0.19)
_WITHOUT_KEY = Difference(colours=0.60, layout=0.26)


@dataclass(frozen=True, slots=True)
class Signature:
    """What is compared. ``colours``: shares of a coarse palette; ``layout``: mean colour of each block, in [0, 1]."""

    colours: npt.NDArray[np.float64]
    layout: npt.NDArray[np.float64]

    @classmethod
    def of(cls, image: Rgb) -> "Signature":
        """Summarise a picture of any size by a few thousand of its pixels."""
        rows, columns = (
            np.linspace(0, side - 1, blocks * _CELLS_PER_BLOCK).astype(np.intp)
            for side, blocks in zip(image.shape, _GRID, strict=False)
        )
        sample = image[np.ix_(rows, columns)]
        blocks = sample.reshape(_GRID[0], _CELLS_PER_BLOCK, _GRID[1], _CELLS_PER_BLOCK, 3)
        return cls(_palette(sample), blocks.mean(axis=(1, 3)) / 255)

    @property
    def is_black(self) -> bool:
        """Whether there is nothing to compare: a fade, or a leading black frame."""
        return bool(self.layout.max() < _BLACK)

    def difference(self, other: "Signature") -> Difference:
        """Compare two pictures."""
        return Difference(
            colours=float(np.abs(self.colours - other.colours).sum() / 2),
            layout=float(np.abs(self.layout - other.layout).mean()),
        )


def find_shots(batch: FrameBatch, media: ProbedMedia) -> tuple[Shot, ...]:
    """Cut a clip into shots, from 0 to the end of its last frame. Empty without pictures."""
    if not media.has_video:
        return ()
    times_s = media.frame_times_s
    end_s = times_s[-1] + times_s[-1] / (len(times_s) - 1) if len(times_s) > 1 else media.media.duration_s
    out_of_turn = _out_of_turn(media.keyframe_times_s)
    seen = [(frame.t_s, Signature.of(frame.image)) for frame in batch.frames]
    cuts_s: list[float] = []
    for (before_s, before), (after_s, after) in pairwise(seen):
        if not (before.is_black or after.is_black):
            keys_s = [key_s for key_s in media.keyframe_times_s if before_s < key_s <= after_s]
            told_s = [key_s for key_s in keys_s if key_s in out_of_turn]
            cuts_s += _place(before.difference(after), keys_s, told_s, middle_s=(before_s + after_s) / 2)
    edges_s = [0.0, *_spaced(cuts_s, end_s), end_s]
    return tuple(Shot(t_start_s=start_s, t_end_s=stop_s) for start_s, stop_s in pairwise(edges_s))


def _place(difference: Difference, keys_s: list[float], told_s: list[float], *, middle_s: float) -> list[float]:
    """Say where between two pictures the cuts are, given the key frames between them and those out of turn."""
    if not keys_s:
        return [middle_s] if difference.exceeds(_WITHOUT_KEY) else []
    if not difference.exceeds(_WITH_KEY):
        return []
    if 0 < len(told_s) <= _MAX_CUTS_IN_GAP:
        return told_s
    return [min(told_s or keys_s, key=lambda key_s: abs(key_s - middle_s))]


def _out_of_turn(keys_s: Sequence[float]) -> frozenset[float]:
    """Return the key frames that came before the encoder's regular interval was over.

    The longest interval is the regular one if it occurs more than once; else the encoder has none.
    """
    gaps_s = [later_s - key_s for key_s, later_s in pairwise(keys_s)]
    longest_s = max(gaps_s, default=0.0)
    is_regular = [gap_s > 0.98 * longest_s for gap_s in gaps_s]
    if sum(is_regular) < 2:
        return frozenset(keys_s[1:])
    return frozenset(key_s for key_s, regular in zip(keys_s[1:], is_regular, strict=True) if not regular)


def _spaced(cuts_s: Sequence[float], end_s: float) -> list[float]:
    """Drop cuts that would leave too short a shot before or after them."""
    kept_s: list[float] = []
    for cut_s in sorted(cuts_s):
        if cut_s - (kept_s[-1] if kept_s else 0.0) >= MIN_SHOT_S and end_s - cut_s >= MIN_SHOT_S:
            kept_s.append(cut_s)
    return kept_s


def _palette(sample: Rgb) -> npt.NDArray[np.float64]:
    """Return the shares of 8 x 8 x 8 colours, smoothed so that a slight change of light moves little."""
    level = (sample // (256 // _COLOUR_LEVELS)).astype(np.intp)
    index = (level[..., 0] * _COLOUR_LEVELS + level[..., 1]) * _COLOUR_LEVELS + level[..., 2]
    cube = np.bincount(index.ravel(), minlength=_COLOUR_LEVELS**3).reshape((_COLOUR_LEVELS,) * 3) / index.size
    for axis in range(3):
        padded = np.pad(cube, [(1, 1) if a == axis else (0, 0) for a in range(3)], mode="edge")
        below, above = (np.delete(padded, [i, i + 1], axis) for i in (_COLOUR_LEVELS, 0))
        cube = cube / 2 + below / 4 + above / 4
    return cube

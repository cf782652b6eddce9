"""How a stored picture is shown: its size, its pixels' aspect and its orientation."""

from dataclasses import dataclass
from fractions import Fraction

from av.sidedata.sidedata import Type
from av.video.frame import VideoFrame

from stages.media.orientation import Orientation

MIN_SIDE_PX = 64
"""Below this nothing can be recognised, and a sample aspect (often left over from scaling) means nothing."""

_MAX_ASPECT = 4
_SQUARE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Shape:
    """Stored ``width`` x ``height``; ``aspect`` is the width of one stored pixel over its height."""

    width: int
    height: int
    aspect: Fraction
    orientation: Orientation

    @classmethod
    def of(cls, frame: VideoFrame, aspect: Fraction | None) -> "Shape":
        """Read it off a decoded picture, because headers may lie; ``aspect`` is what the stream says, if anything."""
        tiny = min(frame.width, frame.height) < MIN_SIDE_PX
        sensible = aspect is not None and Fraction(1, _MAX_ASPECT) <= aspect <= _MAX_ASPECT
        return cls(
            frame.width, frame.height, aspect if aspect and sensible and not tiny else _SQUARE, _orientation(frame)
        )

    @property
    def display_size(self) -> tuple[int, int]:
        """Upright (width, height) in square pixels."""
        return self.orientation.size(max(1, round(self.width * self.aspect)), self.height)

    def scaled(self, max_side_px: int) -> tuple[int, int]:
        """Return (width, height) as stored, in square pixels, the longer side at most ``max_side_px``."""
        width = self.width * self.aspect
        scale = min(_SQUARE, max_side_px / max(width, Fraction(self.height)))
        return max(1, round(width * scale)), max(1, round(self.height * scale))


def _orientation(frame: VideoFrame) -> Orientation:
    try:
        matrix = bytes(frame.side_data[Type.DISPLAYMATRIX])  # type: ignore[typeddict-item]
    except KeyError:
        return Orientation()
    except ValueError:  # side data of a kind that PyAV has no name for hides the matrix
        return Orientation.turned(frame.rotation)
    return Orientation.from_matrix(matrix)

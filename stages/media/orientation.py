"""How a stored picture is turned and mirrored to be shown upright."""

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Orientation:
    """One of the eight ways to lay a picture down: swap its axes, then mirror it left-right, then top-bottom."""

    transpose: bool = False
    mirror_x: bool = False
    mirror_y: bool = False

    @classmethod
    def from_matrix(cls, matrix: bytes) -> "Orientation":
        """Read a display matrix: nine native int32, row vectors, (x', y') = (a x + c y, b x + d y).

        Slanted matrices are taken as the nearest quarter turn.
        """
        a, b, _, c, d, *_ = struct.unpack("9i", matrix)
        if abs(a) + abs(d) >= abs(b) + abs(c):
            return cls(transpose=False, mirror_x=a < 0, mirror_y=d < 0)
        return cls(transpose=True, mirror_x=c < 0, mirror_y=b < 0)

    @classmethod
    def turned(cls, degrees: float) -> "Orientation":
        """Return the orientation that turns a picture counter-clockwise, to the nearest quarter."""
        quarters = round(degrees / 90) % 4
        return cls(transpose=quarters in (1, 3), mirror_x=quarters in (2, 3), mirror_y=quarters in (1, 2))

    @property
    def rotation(self) -> int:
        """Clockwise degrees from the stored to the upright picture; of a mirrored one, without the mirror."""
        if self.transpose:
            return 90 if self.mirror_x else 270
        return 180 if self.mirror_x and self.mirror_y else 0

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the upright (width, height) of a stored picture."""
        return (height, width) if self.transpose else (width, height)

    def apply(self, image: "npt.NDArray[np.uint8]") -> "npt.NDArray[Any]":
        """Return ``image`` (height, width, 3) upright: a contiguous copy."""
        if self.transpose:
            image = image.swapaxes(0, 1)
        rows = slice(None, None, -1 if self.mirror_y else 1)
        columns = slice(None, None, -1 if self.mirror_x else 1)
        return image[rows, columns].copy()

import itertools
import struct

import numpy as np
import pytest

from stages.media.orientation import Orientation

PICTURE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
ONE = 1 << 16


def matrix(a: int, b: int, c: int, d: int) -> bytes:
    return struct.pack("9i", a * ONE, b * ONE, 0, c * ONE, d * ONE, 0, 0, 0, 1 << 30)


@pytest.mark.parametrize(
    ("values", "upright", "rotation"),
    [
        ((1, 0, 0, 1), PICTURE, 0),
        ((0, 1, -1, 0), np.rot90(PICTURE, -1), 90),
        ((-1, 0, 0, -1), np.rot90(PICTURE, 2), 180),
        ((0, -1, 1, 0), np.rot90(PICTURE, 1), 270),
        ((-1, 0, 0, 1), PICTURE[:, ::-1], 0),
        ((1, 0, 0, -1), PICTURE[::-1], 0),
        ((0, 1, 1, 0), PICTURE.swapaxes(0, 1), 270),
        ((0, -1, -1, 0), np.rot90(PICTURE, 2).swapaxes(0, 1), 90),
    ],
)
def test_each_of_the_eight_display_matrices_lays_the_picture_upright(
    values: tuple[int, int, int, int], upright: np.ndarray, rotation: int
) -> None:
    orientation = Orientation.from_matrix(matrix(*values))
    shown = orientation.apply(PICTURE)
    assert np.array_equal(shown, upright)
    assert shown.flags.c_contiguous
    assert orientation.size(3, 2) == (shown.shape[1], shown.shape[0])
    assert orientation.rotation == rotation


@pytest.mark.parametrize("degrees", [-180, -90, 0, 90, 180, 270, 85, -95])
def test_an_angle_alone_turns_counter_clockwise(degrees: int) -> None:
    expected = np.rot90(PICTURE, round(degrees / 90))
    assert np.array_equal(Orientation.turned(degrees).apply(PICTURE), expected)


def test_any_matrix_is_read_as_some_orientation() -> None:
    extremes = (-(2**31), -1, 0, 1, 2**31 - 1)
    for values in itertools.product(extremes, repeat=4):
        a, b, c, d = values
        Orientation.from_matrix(struct.pack("9i", a, b, 0, c, d, 0, 0, 0, 0)).apply(PICTURE)

"""YOLOX's decoding, on outputs made by hand: its file is not in any registry."""

import numpy as np
import pytest

from schemas.errors import ConfigurationError
from stages.backends.onnx import Tensor
from stages.backends.yolox import Yolox, grid
from stages.vocabulary import Coco

SIDE_PX = 416
CELLS = 52 * 52 + 26 * 26 + 13 * 13


class OneObject:
    """Answers with one object in one cell: ``row`` holds x, y, log w, log h, objectness and the score of ``label``."""

    name = "yolox_test"

    def __init__(self, cell: int, *, row: tuple[float, ...], label: str, shape: tuple[int | str, ...] = ()) -> None:
        self.input_shape: tuple[int | str | None, ...] = shape or (1, 3, SIDE_PX, SIDE_PX)
        self._output = np.zeros((1, CELLS, 85), np.float32)
        self._output[0, cell, :5] = row[:5]
        self._output[0, cell, 5 + Coco.load().labels.index(label)] = row[5]
        self.given: Tensor | None = None

    def __call__(self, x: Tensor) -> list[Tensor]:
        self.given = x
        return [self._output]


def test_the_grid_counts_columns_then_rows_then_coarser_strides() -> None:
    cells, strides = grid(SIDE_PX, SIDE_PX)
    assert cells.shape == (CELLS, 2)
    assert cells[1].tolist() == [1, 0]
    assert cells[52].tolist() == [0, 1]
    assert [strides[0], strides[52 * 52], strides[-1]] == [8, 16, 32]


def test_an_object_in_a_wide_picture_is_found_where_it_is() -> None:
    # Cell (5, 4) of the coarsest grid, offset (0.5, 0.25): centre (176, 136) px of 416, size 64 x 32 px.
    # An 832 x 416 picture is halved into the top 416 x 208: the centre is at 176/416 and 136/208 of it.
    cell = 52 * 52 + 26 * 26 + 4 * 13 + 5
    network = OneObject(cell, row=(0.5, 0.25, np.log(2), 0.0, 0.8, 0.5), label="zebra")
    (zebra,) = Yolox(network).look(np.zeros((416, 832, 3), np.uint8), floor=0.3)
    assert zebra.label == "zebra"
    assert zebra.score == pytest.approx(0.4)  # objectness x class
    assert zebra.box == pytest.approx(((176 - 32) / 416, (136 - 16) / 208, (176 + 32) / 416, (136 + 16) / 208))


def test_the_network_is_given_blue_green_red_from_0_to_255_padded_with_grey() -> None:
    network = OneObject(0, row=(0, 0, 0, 0, 0, 0), label="cat")
    Yolox(network).look(np.full((208, 416, 3), (200, 100, 50), np.uint8), floor=0.3)
    assert network.given is not None
    assert network.given[0, :, 0, 0].tolist() == [50, 100, 200]
    assert network.given[0, :, -1, 0].tolist() == [114, 114, 114]


def test_weak_objects_stay_below_the_floor() -> None:
    network = OneObject(0, row=(0, 0, 0, 0, 0.5, 0.5), label="cat")
    assert Yolox(network).look(np.zeros((416, 416, 3), np.uint8), floor=0.3) == []


def test_a_file_with_another_input_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not that of YOLOX"):
        Yolox(OneObject(0, row=(0, 0, 0, 0, 0, 0), label="cat", shape=("n", 3, "h", "w")))

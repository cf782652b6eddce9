"""Weights in a lossy format become Q8_0, and nothing else about the file changes."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, dequantize

from llm_engine.backends.requantise import requantise

from .tiny_gguf import TENSORS, write_tiny_gguf


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "origin.gguf")


def converted(origin: Path, name: str = "target.gguf") -> Path:
    target = origin.with_name(name)
    requantise(origin, target, on_bytes=lambda _: None)
    return target


def test_what_was_quantised_is_q8_0_and_what_was_not_stays(origin: Path) -> None:
    kinds = {tensor.name: tensor.tensor_type for tensor in GGUFReader(converted(origin)).tensors}
    plain = GGMLQuantizationType.F32
    assert kinds == {name: plain if kind is plain else GGMLQuantizationType.Q8_0 for name, kind in TENSORS.items()}


def test_values_move_by_less_than_a_step_of_q8_0(origin: Path) -> None:
    pairs = zip(GGUFReader(origin).tensors, GGUFReader(converted(origin)).tensors, strict=True)
    for before, after in pairs:
        old, new = dequantize(before.data, before.tensor_type), dequantize(after.data, after.tensor_type)
        assert list(before.shape) == list(after.shape)
        assert np.abs(old - new).max() <= np.abs(old).max() / 127


def test_metadata_stays_but_for_the_file_type(origin: Path) -> None:
    before, after = GGUFReader(origin).fields, GGUFReader(converted(origin)).fields
    told = {name: (field.types, field.contents()) for name, field in before.items()}
    now = {name: (field.types, field.contents()) for name, field in after.items()}
    assert now.pop("general.file_type")[1] == 7
    told.pop("general.file_type")
    assert now == told
    assert list(before) == list(after)


def test_the_same_file_gives_the_same_bytes(origin: Path) -> None:
    assert converted(origin, "one.gguf").read_bytes() == converted(origin, "two.gguf").read_bytes()


def test_progress_counts_the_weights_up_to_the_last(origin: Path) -> None:
    heard: list[int] = []
    target = origin.with_name("target.gguf")
    requantise(origin, target, on_bytes=heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == sum(tensor.n_bytes for tensor in GGUFReader(target).tensors)

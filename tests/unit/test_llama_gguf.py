"""Reading the weights of a Llama model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize, quantize
from hypothesis import given
from hypothesis import strategies as st

from llm_engine.backends.gguf_file import GgufFile
from llm_engine.backends.llama_gguf import LlamaConfig, read_llama
from schemas.errors import ConfigurationError, ErrorCode
from tests.unit.tiny_llama import HEAD_DIM, HEADS, KV_HEADS, Tensors, random_tensors, write_llama

Q8_0 = GGMLQuantizationType.Q8_0


@pytest.fixture(scope="module")
def tensors() -> Tensors:
    return random_tensors()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, tensors: Tensors) -> Path:
    return write_llama(tmp_path_factory.mktemp("llama") / "tiny.gguf", tensors)


def rounded(tensor: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """What Q8_0 leaves of ``tensor``."""
    return dequantize(quantize(tensor, Q8_0), Q8_0)


def test_the_hyper_parameters_are_read(tiny: Path) -> None:
    assert read_llama(tiny).config == LlamaConfig(
        layers=2,
        heads=4,
        kv_heads=2,
        head_dim=32,
        embedding_length=128,
        ffn_length=96,
        rms_eps=float(np.float32(1e-5)),
        rope_base=500.0,
        context_length=512,
        vocab_size=61,
    )


def test_matrices_and_vectors_are_read(tiny: Path, tensors: Tensors) -> None:
    weights = read_llama(tiny)
    layer = weights.layers[1]
    assert layer.gate.values.shape == (96, 4, 32)
    assert layer.gate.scales.shape == (96, 4, 1)
    np.testing.assert_array_equal(layer.gate.dequantised(), rounded(tensors["blk.1.ffn_gate.weight"]))
    np.testing.assert_array_equal(layer.value.dequantised(), rounded(tensors["blk.1.attn_v.weight"]))
    np.testing.assert_array_equal(weights.embedding.dequantised(), rounded(tensors["token_embd.weight"]))
    np.testing.assert_array_equal(weights.output_norm, tensors["output_norm.weight"])


def test_rows_that_rotate_together_lie_half_a_head_apart(tiny: Path, tensors: Tensors) -> None:
    """In the file they lie side by side: rows 0 and 1 of a head, then 2 and 3."""
    layer = read_llama(tiny).layers[0]
    for matrix, name, heads in ((layer.query, "attn_q", HEADS), (layer.key, "attn_k", KV_HEADS)):
        stored = rounded(tensors[f"blk.0.{name}.weight"])
        read = matrix.dequantised()
        for head in range(heads):
            for pair in range(HEAD_DIM // 2):
                row = head * HEAD_DIM + pair
                np.testing.assert_array_equal(read[row], stored[head * HEAD_DIM + 2 * pair])
                np.testing.assert_array_equal(read[row + HEAD_DIM // 2], stored[head * HEAD_DIM + 2 * pair + 1])


def test_the_head_is_the_embedding_unless_the_file_has_one(tiny: Path, tmp_path: Path) -> None:
    tied = read_llama(tiny)
    assert tied.head is tied.embedding
    tensors = random_tensors(tied=False)
    untied = read_llama(write_llama(tmp_path / "untied.gguf", tensors))
    np.testing.assert_array_equal(untied.head.dequantised(), rounded(tensors["output.weight"]))


def test_the_hash_names_the_file(tiny: Path, tmp_path: Path) -> None:
    other = write_llama(tmp_path / "other.gguf", random_tensors(seed=1))
    assert read_llama(tiny).sha256 != read_llama(other).sha256


def refusal(path: Path) -> ConfigurationError:
    """The error that reading ``path`` gives; it always says what to do."""
    with pytest.raises(ConfigurationError, match="halfsecond models pull") as raised:
        read_llama(path)
    return raised.value


def test_a_missing_file_is_called_missing(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nothing.gguf").code is ErrorCode.MODEL_MISSING
    assert refusal(tmp_path).code is ErrorCode.MODEL_MISSING


@pytest.mark.parametrize("content", [b"", b"GG", b"\x89PNG\r\n\x1a\n" * 9, b"GGUF", b"GGUF\x09\0\0\0" + b"\0" * 16])
def test_what_is_no_gguf_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert refusal(path).code is ErrorCode.MODEL_FAILED


@pytest.mark.parametrize("kept", [0.001, 0.01, 0.1, 0.5, 0.9])
def test_a_cut_file_is_refused(tiny: Path, tmp_path: Path, kept: float) -> None:
    content = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(content[: int(len(content) * kept)])
    assert refusal(path).code is ErrorCode.MODEL_FAILED


def test_another_architecture_is_refused(tmp_path: Path, tensors: Tensors) -> None:
    error = refusal(write_llama(tmp_path / "other.gguf", tensors, architecture="qwen2"))
    assert error.code is ErrorCode.MODEL_FAILED
    assert "qwen2" in error.message


def test_another_quantisation_is_refused(tmp_path: Path, tensors: Tensors) -> None:
    error = refusal(write_llama(tmp_path / "q4.gguf", tensors, quantisation=GGMLQuantizationType.Q4_1))
    assert error.code is ErrorCode.MODEL_FAILED
    assert "Q8_0" in error.message


@pytest.mark.parametrize(
    "name", ["token_embd.weight", "output_norm.weight", "blk.0.attn_k.weight", "blk.1.ffn_norm.weight"]
)
def test_a_missing_tensor_is_named(tmp_path: Path, tensors: Tensors, name: str) -> None:
    error = refusal(write_llama(tmp_path / "less.gguf", {k: v for k, v in tensors.items() if k != name}))
    assert error.code is ErrorCode.MODEL_FAILED
    assert name in error.message


@pytest.mark.parametrize("name", ["rope_freqs.weight", "blk.0.attn_q.bias", "blk.2.attn_norm.weight"])
def test_a_tensor_that_would_be_ignored_is_refused(tmp_path: Path, tensors: Tensors, name: str) -> None:
    more = tensors | {name: np.ones(16, np.float32)}
    assert name in refusal(write_llama(tmp_path / "more.gguf", more)).message


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path, tensors: Tensors) -> None:
    name = "blk.0.ffn_up.weight"
    assert name in refusal(write_llama(tmp_path / "odd.gguf", tensors | {name: tensors[name][:64]})).message


@pytest.mark.parametrize(
    "values",
    [
        {"llama.attention.head_count_kv": 3},
        {"llama.attention.head_count": 0},
        {"llama.block_count": 0},
        {"llama.block_count": 2**31},
        {"llama.context_length": "long"},
        {"llama.rope.dimension_count": 16},
        {"llama.rope.scaling.type": "yarn"},
        {"llama.rope.freq_base": float("nan")},
        {"llama.attention.layer_norm_rms_epsilon": 0.0},
        {"general.alignment": 0},
    ],
)
def test_hyper_parameters_that_cannot_be_are_refused(tmp_path: Path, tensors: Tensors, values: dict[str, Any]) -> None:
    assert refusal(write_llama(tmp_path / "odd.gguf", tensors, values=values)).code is ErrorCode.MODEL_FAILED


@given(position=st.integers(0, 2_000), replacement=st.binary(min_size=1, max_size=8))
def test_whatever_the_header_says_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, tiny: Path, position: int, replacement: bytes
) -> None:
    content = bytearray(tiny.read_bytes())
    content[position : position + len(replacement)] = replacement
    path = tmp_path_factory.getbasetemp() / "mutated.gguf"
    path.write_bytes(content)
    try:
        read_llama(path)
    except ConfigurationError as error:
        assert error.code is ErrorCode.MODEL_FAILED  # noqa: PT017


def test_lists_of_texts_and_numbers_are_read(tmp_path: Path, tensors: Tensors) -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(tmp_path / "lists.gguf", "llama")
    writer.add_token_list(["<s>", "é", "词"])
    writer.add_array("numbers", [1, -2, 3])
    writer.add_array("none", [])
    writer.add_bool("yes", True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    values = GgufFile(tmp_path / "lists.gguf").values
    assert values["tokenizer.ggml.tokens"] == ["<s>", "é", "词"]
    assert values["numbers"] == [1, -2, 3]
    assert values["yes"] is True

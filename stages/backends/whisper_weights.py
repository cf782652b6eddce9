"""Reading the weights in a CTranslate2 model folder, so that other runtimes can use the same pinned files."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from schemas.errors import ConfigurationError, ErrorCode

Array = npt.NDArray[np.generic]
State = dict[str, Array]
"""Arrays by the names that openai-whisper gives its parameters."""

_VERSION = 6
_DTYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}

_PLAIN = {
    "encoder/conv1": "encoder.conv1",
    "encoder/conv2": "encoder.conv2",
    "encoder/layer_norm": "encoder.ln_post",
    "decoder/layer_norm": "decoder.ln",
}
_LAYER = {
    "self_attention/layer_norm": "attn_ln",
    "attention/layer_norm": "cross_attn_ln",
    "ffn/layer_norm": "mlp_ln",
    "ffn/linear_0": "mlp.0",
    "ffn/linear_1": "mlp.2",
}
# CTranslate2 stacks projections that read the same input into one matrix.
_ATTENTION = {
    "self_attention/linear_0": ("attn.query", "attn.key", "attn.value"),
    "self_attention/linear_1": ("attn.out",),
    "attention/linear_0": ("cross_attn.query",),
    "attention/linear_1": ("cross_attn.key", "cross_attn.value"),
    "attention/linear_2": ("cross_attn.out",),
}
_PARAMETER = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


@dataclass(frozen=True, slots=True)
class WhisperWeights:
    """One model: its parameters (float, not quantised) and its numbers of attention heads."""

    state: State
    audio_heads: int
    text_heads: int


def read_weights(path: Path) -> WhisperWeights:
    """Read ``model.bin``. Raises ``ConfigurationError`` when it is no Whisper model of the known format version."""
    try:
        with path.open("rb") as file:
            arrays = dict(_variables(file))
        return WhisperWeights(
            state=dict(_parameters(arrays)),
            audio_heads=int(arrays["encoder/num_heads"]),
            text_heads=int(arrays["decoder/num_heads"]),
        )
    except (OSError, struct.error, KeyError, ValueError) as error:
        raise ConfigurationError(ErrorCode.MODEL_MISSING, f"{path} cannot be read: {error}") from error


def _variables(file: BinaryIO) -> Iterator[tuple[str, Array]]:
    """Yield name and value of everything in the file (format: version, model type, revision, count, variables)."""
    if _number(file, "I") != _VERSION or _text(file) != "WhisperSpec":
        raise ValueError(f"not a CTranslate2 Whisper model of format version {_VERSION}")
    _number(file, "I")
    for _ in range(_number(file, "I")):
        name = _text(file)
        shape = tuple(_number(file, "I") for _ in range(_number(file, "B")))
        dtype = _DTYPES[_number(file, "B")]
        yield name, np.frombuffer(file.read(_number(file, "I")), dtype).reshape(shape)


def _number(file: BinaryIO, form: str) -> int:
    (number,) = struct.unpack(f"<{form}", file.read(struct.calcsize(form)))
    return int(number)


def _text(file: BinaryIO) -> str:
    return file.read(_number(file, "H")).rstrip(b"\0").decode()


def _parameters(arrays: State) -> Iterator[tuple[str, Array]]:
    """Yield openai-whisper's name and array of every parameter."""
    yield "encoder.positional_embedding", arrays["encoder/position_encodings/encodings"]
    yield "decoder.positional_embedding", arrays["decoder/position_encodings/encodings"]
    yield "decoder.token_embedding.weight", arrays["decoder/embeddings/weight"]
    for path, array in arrays.items():
        module, _, leaf = path.rpartition("/")
        parameter = _PARAMETER.get(leaf)
        if parameter is None:
            continue
        if module in _PLAIN:
            yield f"{_PLAIN[module]}.{parameter}", array
        elif "/layer_" in module:
            yield from _layer_parameters(module, parameter, array)


def _layer_parameters(module: str, parameter: str, array: Array) -> Iterator[tuple[str, Array]]:
    side, layer, part = module.split("/", 2)
    block = f"{side}.blocks.{layer.removeprefix('layer_')}"
    if part in _LAYER:
        yield f"{block}.{_LAYER[part]}.{parameter}", array
        return
    names = _ATTENTION[part]
    for name, share in zip(names, np.split(array, len(names)), strict=True):
        if name.endswith("key") and parameter == "bias":
            continue  # keys have none: CTranslate2 stores zeros
        yield f"{block}.{name}.{parameter}", share

"""The weights of a Llama model, out of a Q8_0 GGUF file.

Q8_0 keeps a matrix row in groups of 32 numbers, each group as 32 signed bytes and one half-precision scale: 34 bytes.
"""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from llm_engine.backends.gguf_file import GgufFile

GROUP = 32
"""Numbers that share a scale in Q8_0."""

_GROUP_BYTES = GROUP + 2
_F32, _Q8_0 = 0, 8
_GROUP_LAYOUT = np.dtype([("scale", "<f2"), ("values", "i1", GROUP)])

Vector = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float32]
Number = TypeVar("Number", np.int8, np.float16)


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Hyper-parameters. ``head_dim`` × ``heads`` is the width of the queries."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    embedding_length: int
    ffn_length: int
    rms_eps: float
    rope_base: float
    context_length: int
    vocab_size: int


@dataclass(frozen=True, slots=True)
class Q8Matrix:
    """A matrix of shape (rows, groups × 32). ``values``: (rows, groups, 32) int8; ``scales``: (rows, groups, 1) f16."""

    values: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float16]

    @property
    def rows(self) -> int:
        """Outputs, when it multiplies."""
        return int(self.values.shape[0])

    def dequantised(self) -> Matrix:
        """Return the numbers themselves: value × scale."""
        numbers = self.values.astype(np.float32) * self.scales.astype(np.float32)
        return numbers.reshape(self.rows, -1)


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """One block: attention, then a gated feed-forward network. Matrices are (outputs, inputs)."""

    attention_norm: Vector
    query: Q8Matrix
    key: Q8Matrix
    value: Q8Matrix
    attention_output: Q8Matrix
    ffn_norm: Vector
    gate: Q8Matrix
    up: Q8Matrix
    down: Q8Matrix


@dataclass(frozen=True, slots=True)
class LlamaWeights:
    """A whole model. ``head`` is ``embedding`` itself where the two are tied. ``sha256``: of the file."""

    config: LlamaConfig
    embedding: Q8Matrix
    layers: tuple[LlamaLayer, ...]
    output_norm: Vector
    head: Q8Matrix
    sha256: str


def read_llama(path: Path) -> LlamaWeights:
    """Read a Q8_0 model of the llama architecture; about 0.3 s and 1.1 bytes a parameter.

    Raises ``ConfigurationError``: ``MODEL_MISSING`` when there is no such file; ``MODEL_FAILED`` when it is damaged, of
    another architecture or quantisation, or lacks a tensor or has one that this reader would leave out.
    """
    file = GgufFile(path)
    tensors = _Tensors(file)
    config = _config(file)
    wide, embedded = config.heads * config.head_dim, config.embedding_length
    narrow = config.kv_heads * config.head_dim

    def layer(index: int) -> LlamaLayer:
        name = f"blk.{index}."
        return LlamaLayer(
            attention_norm=tensors.vector(f"{name}attn_norm.weight", embedded),
            query=_halves_apart(tensors.matrix(f"{name}attn_q.weight", wide, embedded), config.heads),
            key=_halves_apart(tensors.matrix(f"{name}attn_k.weight", narrow, embedded), config.kv_heads),
            value=tensors.matrix(f"{name}attn_v.weight", narrow, embedded),
            attention_output=tensors.matrix(f"{name}attn_output.weight", embedded, wide),
            ffn_norm=tensors.vector(f"{name}ffn_norm.weight", embedded),
            gate=tensors.matrix(f"{name}ffn_gate.weight", config.ffn_length, embedded),
            up=tensors.matrix(f"{name}ffn_up.weight", config.ffn_length, embedded),
            down=tensors.matrix(f"{name}ffn_down.weight", embedded, config.ffn_length),
        )

    embedding = tensors.matrix("token_embd.weight", config.vocab_size, embedded)
    tied = "output.weight" not in file.tensors
    weights = LlamaWeights(
        config=config,
        embedding=embedding,
        layers=tuple(layer(index) for index in range(config.layers)),
        output_norm=tensors.vector("output_norm.weight", embedded),
        head=embedding if tied else tensors.matrix("output.weight", config.vocab_size, embedded),
        sha256=_sha256(path),
    )
    tensors.check_all_read()
    return weights


def _config(file: GgufFile) -> LlamaConfig:
    if (architecture := file.values.get("general.architecture")) != "llama":
        file.fail(f"has the architecture {architecture!r} instead of 'llama'")
    heads = _whole(file, "attention.head_count")
    embedding_length = _whole(file, "embedding_length")
    config = LlamaConfig(
        layers=_whole(file, "block_count"),
        heads=heads,
        kv_heads=_whole(file, "attention.head_count_kv", default=heads),
        head_dim=_whole(file, "attention.key_length", default=embedding_length // heads),
        embedding_length=embedding_length,
        ffn_length=_whole(file, "feed_forward_length"),
        rms_eps=_real(file, "attention.layer_norm_rms_epsilon"),
        rope_base=_real(file, "rope.freq_base", default=10_000.0),
        context_length=_whole(file, "context_length"),
        vocab_size=_vocab_size(file),
    )
    _check_attention(file, config)
    return config


def _check_attention(file: GgufFile, config: LlamaConfig) -> None:
    if config.heads % config.kv_heads or config.head_dim % 2:
        file.fail(f"has impossible heads ({config.heads}, {config.kv_heads} of {config.head_dim})")
    if _whole(file, "rope.dimension_count", default=config.head_dim) != config.head_dim:
        file.fail("rotates a part of each head, which is not supported")
    if file.values.get("llama.rope.scaling.type", "none") != "none":
        file.fail("scales its positions, which is not supported")


def _vocab_size(file: GgufFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or not all(embedding.shape):
        file.fail("lacks the tensor 'token_embd.weight'")
    return embedding.shape[0]


def _whole(file: GgufFile, name: str, *, default: int | None = None) -> int:
    number = file.values.get(f"llama.{name}", default)
    if not isinstance(number, int) or number < 1:
        file.fail(f"has no usable 'llama.{name}' ({number})")
    return number


def _real(file: GgufFile, name: str, *, default: float | None = None) -> float:
    number = file.values.get(f"llama.{name}", default)
    if not isinstance(number, float) or not 0 < number < math.inf:
        file.fail(f"has no usable 'llama.{name}' ({number})")
    return number


class _Tensors:
    """Reads tensors, and remembers which. Each result is a copy: the file need not stay open."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self._unread = set(file.tensors)

    def vector(self, name: str, length: int) -> Vector:
        self._check(name, (length,), _F32)
        return self._file.tensor_bytes(name, length * 4).view("<f4").astype(np.float32)

    def matrix(self, name: str, rows: int, columns: int) -> Q8Matrix:
        self._check(name, (rows, columns), _Q8_0)
        groups = columns // GROUP
        raw = self._file.tensor_bytes(name, rows * groups * _GROUP_BYTES).view(_GROUP_LAYOUT).reshape(rows, groups)
        return Q8Matrix(np.ascontiguousarray(raw["values"]), raw["scale"].astype(np.float16)[..., None])

    def check_all_read(self) -> None:
        if self._unread:
            self._file.fail(f"has tensors that this engine does not know, such as {min(self._unread)!r}")

    def _check(self, name: str, shape: tuple[int, ...], kind: int) -> None:
        if (tensor := self._file.tensors.get(name)) is None:
            self._file.fail(f"lacks the tensor {name!r}")
        if tensor.kind != kind:
            self._file.fail(f"is not quantised as Q8_0 ({name!r} has the GGML type {tensor.kind} instead of {kind})")
        if tensor.shape != shape or (kind == _Q8_0 and shape[-1] % GROUP):
            self._file.fail(f"has {name!r} in the shape {tensor.shape} instead of {shape}")
        self._unread.discard(name)


def _halves_apart(matrix: Q8Matrix, heads: int) -> Q8Matrix:
    """Undo the order of rows that the converter to GGUF gives queries and keys.

    GGUF has the two rows that are rotated together side by side; here they lie half a head apart.
    """
    return Q8Matrix(_evens_first(matrix.values, heads), _evens_first(matrix.scales, heads))


def _evens_first(rows: npt.NDArray[Number], heads: int) -> npt.NDArray[Number]:
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

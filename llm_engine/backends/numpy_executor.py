"""The exact oracle: the same model in plain NumPy, slow and obviously right, to test other executors against.

Keeps nothing between steps: it reads each sequence from its beginning, and never looks at a block table.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llm_engine.backends.llama_gguf import LlamaConfig, LlamaLayer, LlamaWeights, Matrix, Vector
from llm_engine.executor import Chunk, Logits

Hidden = npt.NDArray[np.float32]
"""Shape (tokens, features)."""

Heads = npt.NDArray[np.float32]
"""Shape (heads, tokens, head_dim), or tokens that are attended to instead of head_dim."""


class NumpyExecutor:
    """Implements ``Executor`` in f32. ``num_blocks`` is whatever a block manager needs; no memory stands behind it."""

    def __init__(self, weights: LlamaWeights, *, num_blocks: int, max_model_len: int | None = None) -> None:
        self._weights = weights
        self._embedding = weights.embedding.dequantised()
        self._layers = [_Layer.of(layer) for layer in weights.layers]
        self._head = self._embedding if weights.head is weights.embedding else weights.head.dequantised()
        self._num_blocks = num_blocks
        self._max_model_len = min(max_model_len or weights.config.context_length, weights.config.context_length)

    @property
    def model(self) -> str:
        """Weights and precision."""
        return f"numpy/{self._weights.sha256[:16]}/f32"

    @property
    def vocab_size(self) -> int:
        """Columns of the logits."""
        return self._weights.config.vocab_size

    @property
    def max_model_len(self) -> int:
        """Longest sequence, prompt and output together."""
        return self._max_model_len

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        return 32

    @property
    def num_blocks(self) -> int:
        """Blocks that the block manager may hand out."""
        return self._num_blocks

    def execute(self, chunks: Sequence[Chunk]) -> Logits:
        """Return one row for each chunk that ``wants_logits``: of its last position."""
        wanted = [chunk.token_ids[: chunk.end] for chunk in chunks if chunk.wants_logits]
        return np.array([self._last_row(tokens) for tokens in wanted], np.float32).reshape(-1, self.vocab_size)

    def trim(self, unused_blocks: Sequence[int]) -> None:
        """Do nothing: there is nothing to return."""

    def close(self) -> None:
        """Do nothing."""

    def _last_row(self, tokens: Sequence[int]) -> Vector:
        config = self._weights.config
        x = self._embedding[list(tokens)]
        for layer in self._layers:
            x = x + _attention(_rms_norm(x, layer.attention_norm, config), layer, config)
            x = x + _mlp(_rms_norm(x, layer.ffn_norm, config), layer)
        logits: Vector = self._head @ _rms_norm(x[-1], self._weights.output_norm, config)
        return logits


@dataclass(frozen=True, slots=True)
class _Layer:
    """``LlamaLayer`` in f32."""

    attention_norm: Vector
    query: Matrix
    key: Matrix
    value: Matrix
    attention_output: Matrix
    ffn_norm: Vector
    gate: Matrix
    up: Matrix
    down: Matrix

    @classmethod
    def of(cls, layer: LlamaLayer) -> "_Layer":
        return cls(
            attention_norm=layer.attention_norm,
            query=layer.query.dequantised(),
            key=layer.key.dequantised(),
            value=layer.value.dequantised(),
            attention_output=layer.attention_output.dequantised(),
            ffn_norm=layer.ffn_norm,
            gate=layer.gate.dequantised(),
            up=layer.up.dequantised(),
            down=layer.down.dequantised(),
        )


def _attention(x: Hidden, layer: _Layer, config: LlamaConfig) -> Hidden:
    """Every token attends to those before it and itself; ``heads // kv_heads`` query heads share a key head."""
    tokens = len(x)
    queries = _rotated(_heads(x @ layer.query.T, config.heads), config)
    keys = _rotated(_heads(x @ layer.key.T, config.kv_heads), config)
    values = _heads(x @ layer.value.T, config.kv_heads)
    sharing = config.heads // config.kv_heads
    keys, values = keys.repeat(sharing, axis=0), values.repeat(sharing, axis=0)
    scores = queries @ keys.swapaxes(1, 2)
    scores *= 1 / math.sqrt(config.head_dim)
    scores[:, ~np.tri(tokens, dtype=bool)] = -np.inf
    attended: Heads = _softmax(scores) @ values
    found: Hidden = attended.swapaxes(0, 1).reshape(tokens, -1) @ layer.attention_output.T
    return found


def _heads(x: Hidden, heads: int) -> Heads:
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


def _rotated(x: Heads, config: LlamaConfig) -> Heads:
    """Turn the pairs of each head; the two of a pair lie half a head apart."""
    speeds = config.rope_base ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    angles = np.arange(x.shape[1])[:, None] * speeds
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    first, second = x[..., : config.head_dim // 2], x[..., config.head_dim // 2 :]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _mlp(x: Hidden, layer: _Layer) -> Hidden:
    gate = x @ layer.gate.T
    found: Hidden = (gate / (1 + np.exp(-gate)) * (x @ layer.up.T)) @ layer.down.T
    return found


def _rms_norm(x: Hidden, weight: Vector, config: LlamaConfig) -> Hidden:
    mean_square = np.mean(np.square(x), axis=-1, keepdims=True)
    normed: Hidden = x / np.sqrt(mean_square + np.float32(config.rms_eps)) * weight
    return normed


def _softmax(scores: Heads) -> Heads:
    powers: Heads = np.exp(scores - scores.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers

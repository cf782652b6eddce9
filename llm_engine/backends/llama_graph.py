"""A Llama model as an OpenVINO graph over paged keys and values.

All sequences of a step lie one after another in one row of tokens; only attention knows where one ends and the next
begins. Matrices stay in their eight-bit groups: the CPU plug-in multiplies by them directly. A step costs what its
tokens cost, and the vocabulary's matrix only the rows that somebody wants.

Node values below have the shape (tokens, ...) unless said otherwise.
"""

from typing import Any, NamedTuple

import numpy as np
import openvino as ov
from openvino import op
from openvino import opset13 as ops

from llm_engine.backends.llama_gguf import LlamaConfig, LlamaLayer, LlamaWeights, Q8Matrix, Vector
from schemas.errors import ConfigurationError, ErrorCode

OPENVINO_VERSION = "2026.4.1"
"""The inputs of PagedAttention are no public interface and change between releases: their list below is this one's."""

Node = Any
"""Of the graph; OpenVINO ships no types."""


class StepInputs(NamedTuple):
    """What changes with every step. All shapes are one-dimensional unless said otherwise."""

    token_ids: Node
    """int64, (tokens): of all sequences."""
    positions: Node
    """int64, (tokens): of each within its sequence."""
    past_lens: Node
    """int32, (sequences): tokens whose keys and values are in the cache already."""
    subsequence_begins: Node
    """int32, (sequences + 1): where each sequence begins among the tokens; then, how many tokens there are."""
    block_indices: Node
    """int32: the block tables, one after another."""
    block_indices_begins: Node
    """int32, (sequences + 1): where each sequence's table begins among them; then, how many blocks there are."""
    max_context_len: Node
    """int32, no dimension: length of the longest sequence, new tokens included."""
    wanted_rows: Node
    """int64, (rows): the tokens whose logits are asked for."""


def llama_graph(weights: LlamaWeights) -> ov.Model:
    """Build the model. Inputs: ``StepInputs`` in order, then ``key_cache`` and ``value_cache`` of each layer in turn.

    Caches are (blocks, kv_heads, block_size, head_dim), of the type that ``KV_CACHE_PRECISION`` says. The only output
    is the logits, (rows, vocabulary). The graph, and what is compiled from it, keeps the arrays of ``weights`` and may
    read them at any time.
    Raises ``ConfigurationError`` under any other version of OpenVINO than ``OPENVINO_VERSION``.
    """
    _check_version(ov.__version__)
    config = weights.config
    step = _step_inputs()
    caches = [_Cache(_parameter("dynamic", 4), _parameter("dynamic", 4)) for _ in weights.layers]
    rotation = _rotation(step.positions, config)
    embedding = _matrix(weights.embedding)
    x = ops.gather(embedding, ops.convert(step.token_ids, "i32"), _int32(0))
    for layer, cache in zip(weights.layers, caches, strict=True):
        x = ops.add(x, _attention(x, layer, config, step=step, cache=cache, rotation=rotation))
        x = ops.add(x, _mlp(_rms_norm(x, layer.ffn_norm, eps=config.rms_eps), layer))
    x = ops.gather(x, step.wanted_rows, _int32(0))
    x = _rms_norm(x, weights.output_norm, eps=config.rms_eps)
    head = embedding if weights.head is weights.embedding else _matrix(weights.head)
    logits = ops.matmul(x, head, transpose_a=False, transpose_b=True)
    return ov.Model([ops.result(logits)], [*step, *(part for cache in caches for part in cache)], "llama")


class _Cache(NamedTuple):
    """Keys and values of one layer."""

    keys: Node
    values: Node


class _Rotation(NamedTuple):
    """Cosines and sines of each token's angles, (tokens, 1, 1, head_dim)."""

    cos: Node
    sin: Node


def _check_version(version: str) -> None:
    if version.partition("-")[0] != OPENVINO_VERSION:
        text = f"OpenVINO {version} is installed; the embedded engine needs openvino=={OPENVINO_VERSION}"
        raise ConfigurationError(ErrorCode.MODEL_FAILED, text)


def _step_inputs() -> StepInputs:
    return StepInputs(
        token_ids=_parameter("i64", 1),
        positions=_parameter("i64", 1),
        past_lens=_parameter("i32", 1),
        subsequence_begins=_parameter("i32", 1),
        block_indices=_parameter("i32", 1),
        block_indices_begins=_parameter("i32", 1),
        max_context_len=_parameter("i32", 0),
        wanted_rows=_parameter("i64", 1),
    )


def _attention(
    x: Node, layer: LlamaLayer, config: LlamaConfig, *, step: StepInputs, cache: _Cache, rotation: _Rotation
) -> Node:
    """Let every token attend to its own sequence up to itself."""
    x = _rms_norm(x, layer.attention_norm, eps=config.rms_eps)
    queries = _rotated(_linear(x, layer.query), rotation, heads=config.heads, head_dim=config.head_dim)
    keys = _rotated(_linear(x, layer.key), rotation, heads=config.kv_heads, head_dim=config.head_dim)
    values = _linear(x, layer.value)
    attended = _paged_attention(queries, keys, values, config=config, step=step, cache=cache)
    return _linear(attended, layer.attention_output)


def _paged_attention(
    queries: Node, keys: Node, values: Node, *, config: LlamaConfig, step: StepInputs, cache: _Cache
) -> Node:
    """Write the new keys and values into their blocks, then attend through the block tables."""
    inputs = (
        queries,  # 0: (tokens, heads × head_dim)
        keys,  # 1: (tokens, kv_heads × head_dim)
        values,  # 2: (tokens, kv_heads × head_dim)
        cache.keys,  # 3: read and written
        cache.values,  # 4: read and written
        step.past_lens,  # 5
        step.subsequence_begins,  # 6
        step.block_indices,  # 7
        step.block_indices_begins,  # 8
        ops.constant(np.float32(config.head_dim**-0.5)),  # 9: scale of the scores
        _int32(0),  # 10: sliding window; 0: none
        _none(np.float32),  # 11: ALiBi slopes
        step.max_context_len,  # 12
        _none(np.int32),  # 13: window over which scores are summed up, for those who evict
        _none(np.int32),  # 14: blocks whose keys are rotated anew, after eviction
        _none(np.int32),  # 15: by how much
        _none(np.float32),  # 16: the table of those rotations
        _none(np.float32),  # 17: threshold of sparse attention
        _int32(0),  # 18: its block size
        _int32(0),  # 19: its stride
        _none(np.float32, dimensions=4),  # 20: attention sinks
        _int32(0),  # 21: diversity of keys, for those who evict: tokens that are left alone
        _none(np.int32),  # 22: tokens that may be evicted
        _none(np.int32),  # 23: the blocks looked at
        _none(np.int32),  # 24: where each sequence's begin among them
        _none(np.int32),  # 25: kind of each token, where pictures see themselves in both directions
        _none(np.uint8),  # 26: which query sees which, in tree-shaped speculation
        _none(np.int32),  # 27: where each sequence's begin among them
    )
    attention = op._PagedAttentionExtension([node.output(0) for node in inputs])  # noqa: SLF001 (hence the pin)
    cache_shape = attention.get_rt_info()
    cache_shape["num_k_heads"] = cache_shape["num_v_heads"] = config.kv_heads
    cache_shape["k_head_size"] = cache_shape["v_head_size"] = config.head_dim
    return attention.output(0)


def _mlp(x: Node, layer: LlamaLayer) -> Node:
    """Apply the gated feed-forward network, down(silu(gate(x)) × up(x)), to every token by itself."""
    return _linear(ops.multiply(ops.swish(_linear(x, layer.gate)), _linear(x, layer.up)), layer.down)


def _rms_norm(x: Node, weight: Vector, *, eps: float) -> Node:
    """Divide each row by its root mean square (Zhang and Sennrich 2019), then weight its columns."""
    mean_square = ops.reduce_mean(ops.power(x, _float32(2.0)), _int32(-1), keep_dims=True)
    scale = ops.divide(_float32(1.0), ops.sqrt(ops.add(mean_square, _float32(eps))))
    return ops.multiply(ops.multiply(x, scale), ops.constant(weight[None]))


def _rotation(positions: Node, config: LlamaConfig) -> _Rotation:
    """Return the angles of rotary embedding (Su et al. 2021): pair i turns by position × base^(-2i / head_dim)."""
    speeds = config.rope_base ** -(np.arange(0, config.head_dim, 2) / config.head_dim)
    column = ops.convert(ops.unsqueeze(positions, _int32(1)), "f32")
    angles = ops.matmul(column, ops.constant(speeds.astype(np.float32)[None]), transpose_a=False, transpose_b=False)
    both_halves = ops.unsqueeze(ops.concat([angles, angles], 1), _shape(1, 2))
    return _Rotation(ops.cos(both_halves), ops.sin(both_halves))


def _rotated(x: Node, rotation: _Rotation, *, heads: int, head_dim: int) -> Node:
    """Turn the pairs of each head; the two of a pair lie half a head apart.

    In four dimensions, with a split along the last by its number: so the plug-in makes one kernel of it.
    """
    x = ops.reshape(x, _shape(-1, heads, 1, head_dim), special_zero=False)
    first, second = ops.variadic_split(x, _int32(3), _shape(head_dim // 2, head_dim // 2)).outputs()
    turned = ops.concat([ops.multiply(second, _float32(-1.0)), first], -1)
    x = ops.add(ops.multiply(x, rotation.cos), ops.multiply(turned, rotation.sin))
    return ops.reshape(x, _shape(-1, heads * head_dim), special_zero=False)


def _linear(x: Node, matrix: Q8Matrix) -> Node:
    return ops.matmul(x, _matrix(matrix), transpose_a=False, transpose_b=True)


def _matrix(matrix: Q8Matrix) -> Node:
    """Dequantise in the way that the plug-in recognises and leaves out. No zero point: with one it is 20 % slower."""
    groups = ops.convert(ops.constant(matrix.values, shared_memory=True), "f16")
    numbers = ops.multiply(groups, ops.constant(matrix.scales, shared_memory=True))
    return ops.convert(ops.reshape(numbers, _shape(matrix.rows, -1), special_zero=False), "f32")


def _parameter(element: str, dimensions: int) -> Node:
    return ops.parameter([-1] * dimensions, getattr(ov.Type, element))


def _none(element: type[np.generic], *, dimensions: int = 1) -> Node:
    """Return what stands for an input that is not used."""
    return ops.constant(np.zeros((0,) * dimensions, element))


def _int32(number: int) -> Node:
    return ops.constant(np.int32(number))


def _float32(number: float) -> Node:
    return ops.constant(np.float32(number))


def _shape(*sizes: int) -> Node:
    return ops.constant(np.array(sizes, np.int64))

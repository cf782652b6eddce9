"""Runs a Llama model with OpenVINO's paged attention on a CPU."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np
import openvino as ov

from llm_engine.backends.kv_pool import KvPool
from llm_engine.backends.llama_gguf import GROUP, LlamaWeights
from llm_engine.backends.llama_graph import StepInputs, llama_graph
from llm_engine.executor import Chunk, Logits
from schemas.errors import ConfigurationError, ErrorCode, StageError

Precision = Literal["int8", "f32"]

BLOCK_SIZE = 32
"""Tokens; the CPU plug-in has no other."""

MAX_MODEL_LEN = 2048
"""Tokens, though a model may be able to read more: 2,048 of SmolLM2-135M have 94 MB of keys and values."""

_QUANTISED_GROUP = {"int8": GROUP, "f32": 0}
"""Of activations, for multiplying by eight-bit weights: in int8 groups (as llama.cpp does), or exactly in f32."""


class OpenvinoExecutor:
    """Implements ``Executor``. ``threads``: of a step. ``num_blocks``: of keys and values, ``BLOCK_SIZE`` tokens each.

    Everything but the multiplication by weights is in f32 whatever ``precision`` says, keys and values too.

    A lone row is never computed alone: the kernels for one row round in another way than those for two and more. Those
    agree to the last bit on AVX-512; on AVX2, steps of more than some 70 rows have a kernel of their own, whose logits
    differ in the fourth decimal. The token of a one-token step is joined by a token of a dummy sequence in a block of
    its own, and a lone row of logits by itself.

    Raises ``ConfigurationError`` (``MODEL_FAILED``) when the model cannot be compiled.
    """

    def __init__(
        self,
        weights: LlamaWeights,
        *,
        threads: int,
        num_blocks: int,
        max_model_len: int | None = None,
        precision: Precision = "int8",
    ) -> None:
        config = weights.config
        self._model = f"openvino/{weights.sha256[:16]}/{precision}/kv-f32/block-{BLOCK_SIZE}"
        self._vocab_size = config.vocab_size
        self._num_blocks = num_blocks
        self._max_model_len = min(max_model_len or MAX_MODEL_LEN, config.context_length)
        pool = KvPool(caches=2 * config.layers, shape=(num_blocks + 1, config.kv_heads, BLOCK_SIZE, config.head_dim))
        self._loaded: _Loaded | None = _load(_compiled(weights, threads=threads, precision=precision), pool)
        self._warm()

    @property
    def model(self) -> str:
        """Weights, precision and layout of the cache."""
        return self._model

    @property
    def vocab_size(self) -> int:
        """Columns of the logits."""
        return self._vocab_size

    @property
    def max_model_len(self) -> int:
        """Longest sequence, prompt and output together."""
        return self._max_model_len

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        return BLOCK_SIZE

    @property
    def num_blocks(self) -> int:
        """Blocks that the block manager may hand out; the dummy's comes after them."""
        return self._num_blocks

    def execute(self, chunks: Sequence[Chunk]) -> Logits:
        """Compute ``chunks`` in one step; return one row for each that ``wants_logits``, a copy.

        Raises ``ValueError`` for chunks that cannot be, ``StageError`` (``ENGINE_FAILED``) when OpenVINO fails.
        """
        if not chunks:
            return np.empty((0, self._vocab_size), np.float32)
        self._check(chunks)
        rows = sum(chunk.wants_logits for chunk in chunks)
        alone = len(chunks) == 1 and chunks[0].end - chunks[0].start == 1
        return self._infer(_packed([*chunks, self._dummy(1)] if alone else chunks))[:rows].copy()

    def trim(self, unused_blocks: Sequence[int]) -> None:
        """Return memory to the system: scratch space, and the pages of ``unused_blocks``. Their content is lost."""
        if self._loaded is not None:
            self._loaded.pool.give_back(unused_blocks)
            self._loaded.compiled.release_memory()

    def close(self) -> None:
        """Free everything. Safe to call twice."""
        self._loaded = None

    def _warm(self) -> None:
        """Have the weights laid out as the kernels for few and for many tokens want them (0.3 s, once)."""
        for sequences, tokens in ((1, 1), (2, BLOCK_SIZE)):
            self._infer(_packed([self._dummy(tokens)] * sequences))

    def _dummy(self, tokens: int) -> Chunk:
        """Return a sequence in the block that the block manager does not see."""
        return Chunk((0,) * tokens, 0, tokens, (self._num_blocks,), wants_logits=False)

    def _infer(self, step: StepInputs) -> Logits:
        """Return all rows, as a view that is valid until the next step."""
        if self._loaded is None:
            raise StageError(ErrorCode.ENGINE_FAILED, "the executor is closed", retryable=True)
        request = self._loaded.request
        try:
            for index, array in enumerate(step):
                request.set_input_tensor(index, ov.Tensor(array))
            request.infer()
            logits: Logits = request.get_output_tensor(0).data
        except (RuntimeError, MemoryError) as error:
            raise StageError(ErrorCode.ENGINE_FAILED, f"OpenVINO failed: {error}", retryable=True) from error
        return logits

    def _check(self, chunks: Sequence[Chunk]) -> None:
        """Raise ``ValueError`` for what would make native code read or write where it must not."""
        for chunk in chunks:
            if not 0 <= chunk.start < chunk.end <= min(len(chunk.token_ids), self._max_model_len):
                raise ValueError(f"positions {chunk.start} to {chunk.end} of {len(chunk.token_ids)} tokens")
            if len(chunk.block_table) * BLOCK_SIZE < chunk.end:
                raise ValueError(f"{len(chunk.block_table)} blocks for {chunk.end} tokens")
            if not 0 <= min(chunk.block_table) <= max(chunk.block_table) < self._num_blocks:
                raise ValueError(f"a block that is not one of {self._num_blocks}")
            tokens = chunk.token_ids[chunk.start : chunk.end]
            if not 0 <= min(tokens) <= max(tokens) < self._vocab_size:
                raise ValueError(f"a token that is not one of {self._vocab_size}")


class _Loaded(NamedTuple):
    """What takes memory."""

    compiled: ov.CompiledModel
    request: ov.InferRequest
    pool: KvPool


def _load(compiled: ov.CompiledModel, pool: KvPool) -> _Loaded:
    request = compiled.create_infer_request()
    for index, cache in enumerate(pool.caches, start=len(StepInputs._fields)):
        request.set_input_tensor(index, ov.Tensor(cache, shared_memory=True))
    return _Loaded(compiled, request, pool)


def _compiled(weights: LlamaWeights, *, threads: int, precision: Precision) -> ov.CompiledModel:
    properties = {
        "INFERENCE_PRECISION_HINT": "f32",  # else bf16 where the processor has it, and then not the same in any batch
        "KV_CACHE_PRECISION": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": _QUANTISED_GROUP[precision],
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_CPU_PINNING": False,  # the cores are shared with the other models of a clip
    }
    try:
        return ov.Core().compile_model(llama_graph(weights), "CPU", properties)
    except RuntimeError as error:
        text = f"OpenVINO cannot compile the model: {error}"
        raise ConfigurationError(ErrorCode.MODEL_FAILED, text) from error


def _packed(chunks: Sequence[Chunk]) -> StepInputs:
    """Lay all chunks one after another."""
    lengths = [chunk.end - chunk.start for chunk in chunks]
    tables = [chunk.block_table[: -(-chunk.end // BLOCK_SIZE)] for chunk in chunks]
    begins = list(accumulate(lengths, initial=0))
    wanted = [end - 1 for chunk, end in zip(chunks, begins[1:], strict=True) if chunk.wants_logits]
    return StepInputs(
        token_ids=np.concatenate([chunk.token_ids[chunk.start : chunk.end] for chunk in chunks], dtype=np.int64),
        positions=np.concatenate([np.arange(chunk.start, chunk.end, dtype=np.int64) for chunk in chunks]),
        past_lens=np.array([chunk.start for chunk in chunks], np.int32),
        subsequence_begins=np.array(begins, np.int32),
        block_indices=np.concatenate(tables, dtype=np.int32, casting="unsafe"),
        block_indices_begins=np.array(list(accumulate(map(len, tables), initial=0)), np.int32),
        max_context_len=np.array(max(chunk.end for chunk in chunks), np.int32),
        wanted_rows=np.array(wanted * 2 if len(wanted) == 1 else wanted, np.int64),
    )

"""What computes one step of the model. The scheduler decides what is in a step; an executor knows no requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
"""Shape (rows, vocabulary), before softmax."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of one sequence that a step computes: positions ``start`` to ``end`` - 1.

    ``token_ids``: all of the sequence up to ``end``. ``block_table``: the blocks of positions 0 to ``end`` - 1 in
    order; what lies before ``start`` has been computed into them, and the last is written by this sequence only.
    """

    token_ids: Sequence[int]
    start: int
    end: int
    block_table: Sequence[int]
    wants_logits: bool


class Executor(Protocol):
    """Runs a causal language model over paged keys and values. One call at a time, from any thread.

    A chunk of two or more tokens gives the same keys, values and logits, but for f32 rounding, whatever shares its step
    and however the sequence was cut, and so does a chunk of one; between those two kinds, rounding may differ by more
    where activations are rounded to eight bits. The same step gives the same bits.
    """

    @property
    def model(self) -> str:
        """Name of the weights and of everything else that cached keys and values depend on."""
        ...

    @property
    def vocab_size(self) -> int:
        """Columns of the logits."""
        ...

    @property
    def max_model_len(self) -> int:
        """Longest sequence, prompt and output together."""
        ...

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        ...

    @property
    def num_blocks(self) -> int:
        """Blocks that the block manager may hand out, numbered from 0."""
        ...

    def execute(self, chunks: Sequence[Chunk]) -> Logits:
        """Compute ``chunks`` in one step; return one row for each that ``wants_logits``: of its last position.

        Raises ``StageError`` (``ENGINE_FAILED``) when the library fails, ``ValueError`` for impossible chunks.
        """
        ...

    def trim(self, unused_blocks: Sequence[int]) -> None:
        """Return memory to the system: scratch space, and the pages of ``unused_blocks``. Their content is lost."""
        ...

    def close(self) -> None:
        """Free everything. Safe to call twice."""
        ...

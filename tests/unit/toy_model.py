"""A model for tests of the engine's orchestration: bytes for tokens, and a hash for a forward pass.

Its keys and values really lie in blocks, and a wrong one changes every token after it.
"""

import hashlib
import threading
from collections.abc import Sequence

import numpy as np

from llm_engine.base import Chat
from llm_engine.executor import Chunk, Logits

STOP = 256
VOCABULARY = 257
ALPHABET = np.frombuffer(b"abcdefgh ijkl mnop", np.uint8)


class ByteTokenizer:
    """Every byte is a token; so is the end."""

    stop_ids = frozenset({STOP})

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def chat(self, chat: Chat) -> list[int]:
        return self.encode("\n".join(message.content for message in chat.messages) + "\n")

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token for token in token_ids if token != STOP).decode("utf-8", "replace")


class HashExecutor:
    """Each position's state is a hash of the state before it and of its token, kept in blocks."""

    model = "toy"
    vocab_size = VOCABULARY

    def __init__(self, *, num_blocks: int = 32, block_size: int = 4, max_model_len: int = 1024) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.max_model_len = max_model_len
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.script: bytes | None = None
        """What every sequence says, whatever its prompt; then it stops."""
        self.steps: list[list[tuple[int, int]]] = []
        self.trimmed: list[int] = []
        self.closed = 0
        self._states: dict[tuple[int, int], bytes] = {}

    def execute(self, chunks: Sequence[Chunk]) -> Logits:
        self.gate.wait(10)
        self.steps.append([(chunk.start, chunk.end) for chunk in chunks])
        if self.failure:
            raise self.failure
        rows = [self._compute(chunk) for chunk in chunks]
        wanted = [row for row, chunk in zip(rows, chunks, strict=True) if chunk.wants_logits]
        return np.array(wanted, np.float32).reshape(-1, VOCABULARY)

    def trim(self, unused_blocks: Sequence[int]) -> None:
        self.trimmed = list(unused_blocks)
        for block in unused_blocks:
            for slot in range(self.block_size):
                self._states.pop((block, slot), None)

    def close(self) -> None:
        self.closed += 1

    def _compute(self, chunk: Chunk) -> np.ndarray:
        state = b""
        for position in range(chunk.end):
            slot = (chunk.block_table[position // self.block_size], position % self.block_size)
            if position >= chunk.start:
                self._states[slot] = hashlib.sha256(state + bytes([chunk.token_ids[position] % 256])).digest()
            state = self._states[slot]
        return self._scripted(chunk) if self.script is not None else self._hashed(state)

    def _hashed(self, state: bytes) -> np.ndarray:
        logits = np.full(VOCABULARY, -9.0, np.float32)
        logits[ALPHABET] = np.frombuffer(state[: len(ALPHABET)], np.uint8) / 64
        return logits

    def _scripted(self, chunk: Chunk) -> np.ndarray:
        said = bytes(token for token in chunk.token_ids if token != STOP)
        position = next(n for n in range(len(self.script), -1, -1) if said.endswith(self.script[:n]))
        logits = np.zeros(VOCABULARY, np.float32)
        logits[self.script[position] if position < len(self.script) else STOP] = 9
        return logits

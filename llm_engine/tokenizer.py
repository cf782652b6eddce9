"""Text to tokens and back, as an engine needs it."""

from collections.abc import Sequence
from typing import Protocol

from llm_engine.base import Chat


class Tokenizer(Protocol):
    """One model's vocabulary and chat template. Thread-safe."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the tokens of ``text``, with nothing around them. A control token spelt out in it is plain text."""
        ...

    def chat(self, chat: Chat) -> list[int]:
        """Return the tokens of ``chat`` and of the opening of the answer."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text, control tokens left out. A character whose last bytes are missing becomes U+FFFD."""
        ...

"""A vLLM without vLLM: the backend that the adapter sees, and the ``AsyncLLM`` that the in-process backend sees."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from llm_engine.backends.vllm_backend import Generation, Piece
from llm_engine.base import Chat

WORDS = ("one", "two", "three", "four")


class LetterTokenizer:
    """A token is a character."""

    stop_ids = frozenset({0})

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def chat(self, chat: Chat) -> list[int]:
        return self.encode("".join(f"[{m.role}]{m.content}" for m in chat.messages))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))


@dataclass
class FakeBackend:
    """Says ``WORDS`` one after another. ``gate`` holds it back after two; ``failure`` ends it after the first."""

    model: str = "fake"
    max_model_len: int = 2000
    ending: str | None = "stop"
    failure: Exception | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    halfway: asyncio.Event = field(default_factory=asyncio.Event)
    likes: str = ""
    generations: list[Generation] = field(default_factory=list)
    asked: list[tuple[str, list[int], int]] = field(default_factory=list)
    given_up: int = 0
    closed: int = 0

    @classmethod
    def flowing(cls, **changes: Any) -> "FakeBackend":
        backend = cls(**changes)
        backend.gate.set()
        return backend

    async def stream(self, generation: Generation) -> AsyncGenerator[Piece, None]:
        self.generations.append(generation)
        text = ""
        try:
            for number, word in enumerate(WORDS, 1):
                text = f"{text} {word}".strip()
                yield Piece(text, number, 2, None)
                await asyncio.sleep(0)
                if self.failure is not None:
                    raise self.failure
                if number == 2:
                    self.halfway.set()
                    await self.gate.wait()
            yield Piece(text, len(WORDS), 2, self.ending)
        except (asyncio.CancelledError, GeneratorExit):
            self.given_up += 1
            raise

    async def next_token(self, token_ids: Sequence[int], candidates: Sequence[int], *, priority: int) -> list[float]:
        self.asked.append(("".join(map(chr, token_ids)), list(candidates), priority))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        likely = ord(self.likes[0]) if self.likes and self.likes in self.asked[-1][0] else None
        return [math.log(0.6 if token == likely else 0.1) for token in candidates]

    async def close(self) -> None:
        self.closed += 1


class Refusal(Exception):
    """What a fake vLLM raises for a bad request."""


@dataclass
class FakeAsyncLLM:
    """vLLM's engine as far as it is used. ``script`` decides what one request gets."""

    script: Callable[[Any], list[Any]]
    calls: list[SimpleNamespace] = field(default_factory=list)
    shutdowns: int = 0
    aborted: int = 0

    async def generate(self, prompt: Any, params: Any, request_id: str, *, priority: int) -> AsyncGenerator[Any, None]:
        self.calls.append(SimpleNamespace(prompt=prompt, params=params, request_id=request_id, priority=priority))
        try:
            for step in self.script(params):
                if isinstance(step, Exception):
                    raise step
                yield step
                await asyncio.sleep(0)
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted += 1
            raise

    def shutdown(self) -> None:
        self.shutdowns += 1


def output(text: str, finish_reason: str | None = None, *, tokens: int = 1, logprobs: Any = None) -> Any:
    """Return what vLLM yields for one step."""
    answer = SimpleNamespace(text=text, token_ids=[7] * tokens, finish_reason=finish_reason, logprobs=logprobs)
    return SimpleNamespace(outputs=[answer], num_cached_tokens=None)

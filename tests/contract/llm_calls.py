"""Ways of asking an engine. Every wait has an end: a test that finds a hang fails, and does not hang itself."""

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar, cast
from uuid import uuid4

from llm_engine.base import (
    Chat,
    JsonSchema,
    LabelSet,
    LLMEngine,
    LLMOutput,
    LLMRequest,
    Message,
    PriorityClass,
    Prompt,
    Sampling,
)
from schemas.deadline import Deadline
from schemas.errors import StageError

T = TypeVar("T")

PATIENCE_S = 60.0
NEVER = Deadline.never()

MEALS = LabelSet(
    "meals",
    {
        "soup": ("a bowl of hot soup with noodles", "热汤面"),
        "cake": ("a sweet cake with cream and sugar", "甜蛋糕"),
        "drink": ("a glass of cold juice or water", "冰镇果汁"),
    },
)
TEXT = (
    "We went to the market in the old town. We bought beef, noodles and onions there. "
    "My sister cooked a noodle soup with the beef. Everybody said it was the best soup of the year."
)


def _exactly(count: int, items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items, "minItems": count, "maxItems": count}


COIN_TOSSES: JsonSchema = {
    "type": "object",
    "properties": {"heads": _exactly(16, _exactly(16, _exactly(4, {"type": "boolean"})))},
    "required": ["heads"],
}
"""Whatever a model would like to answer, this takes it more than a thousand tokens."""

_NUMBERS = itertools.count(1)


def asking(text: str) -> Prompt:
    return Prompt("meals", "Which meal is it?", text)


def summary(text: str, **options: Any) -> LLMRequest:
    """A request that every engine can answer."""
    return _request(Prompt("summary", "Sum up in one sentence what is said.", text), **options)


def chat(text: str, **options: Any) -> LLMRequest:
    return conversation(Message("system", "You are a helpful assistant."), Message("user", text), **options)


def conversation(*messages: Message, **options: Any) -> LLMRequest:
    return _request(Chat(messages), **options)


def endless(*, max_tokens: int = 1000, **options: Any) -> LLMRequest:
    """A request whose answer always ends with its tokens. No two are equal: a cache knows none of them."""
    return chat(f"Toss a coin, series {next(_NUMBERS)}.", max_tokens=max_tokens, schema=COIN_TOSSES, **options)


def _request(
    prompt: Prompt | Chat, *, max_tokens: int = 32, sampling: Sampling | None = None, **options: Any
) -> LLMRequest:
    request = LLMRequest(uuid4().hex, prompt, NEVER, sampling=sampling or Sampling(max_tokens=max_tokens))
    return replace(request, **options)


class Call:
    """A request under way, and what came back so far."""

    def __init__(self, engine: LLMEngine, request: LLMRequest) -> None:
        self.request = request
        self.outputs: list[LLMOutput] = []
        self.began_at_s = self.ended_at_s = float("inf")
        self.task = asyncio.create_task(self._collect(engine))

    @property
    def text(self) -> str:
        """The text so far."""
        return self.outputs[-1].text if self.outputs else ""

    async def began(self) -> "Call":
        """Wait for some text."""
        await eventually(lambda: bool(self.text) or self.task.done())
        assert self.text, f"ended without text: {self.outputs}, {self.task.exception()}"
        return self

    async def last(self) -> LLMOutput:
        """Wait for the last output."""
        await within(self.task)
        return self.outputs[-1]

    async def outcome(self) -> LLMOutput | StageError:
        """Wait for the last output or the error that came instead."""
        try:
            return await self.last()
        except StageError as error:
            return error

    async def _collect(self, engine: LLMEngine) -> None:
        try:
            async for output in engine.generate(self.request):
                self.outputs.append(output)
                if output.text:
                    self.began_at_s = min(self.began_at_s, time.monotonic())
        finally:
            self.ended_at_s = time.monotonic()


async def answer(engine: LLMEngine, request: LLMRequest) -> LLMOutput:
    """Return the last output."""
    return await Call(engine, request).last()


async def within(awaited: Awaitable[T], seconds: float = PATIENCE_S) -> T:
    """Await, but not for ever."""
    async with asyncio.timeout(seconds):
        return await awaited


async def eventually(holds: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Wait until ``holds()``."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.002)


def stream(engine: LLMEngine, request: LLMRequest) -> AsyncGenerator[LLMOutput, None]:
    """Return what ``generate`` returns, as something that can be closed."""
    return cast("AsyncGenerator[LLMOutput, None]", engine.generate(request))


@asynccontextmanager
async def crowd(engine: LLMEngine, requests: Sequence[LLMRequest]) -> AsyncIterator[list[Call]]:
    """Start ``requests``; what is not through at the end is aborted."""
    calls = [Call(engine, request) for request in requests]
    try:
        yield calls
    finally:
        await asyncio.sleep(0)  # let them all begin, so that there is something to abort
        for call in calls:
            await within(engine.abort(call.request.request_id))
        await within(asyncio.wait([call.task for call in calls]))


@asynccontextmanager
async def full_house(engine: LLMEngine, seats: int) -> AsyncIterator[list[Call]]:
    """Keep every seat taken by requests that nothing of a lower class can push away."""
    async with crowd(engine, [endless(priority=PriorityClass.REALTIME) for _ in range(seats)]) as calls:
        for call in calls:
            await call.began()
        yield calls


def assert_grows(outputs: Sequence[LLMOutput]) -> None:
    """The text only grows, whole character by whole character, and only the last output is finished."""
    assert [output.finish_reason for output in outputs[:-1]] == [None] * (len(outputs) - 1)
    assert outputs[-1].finish_reason is not None
    for before, after in pairwise(outputs):
        assert after.text.startswith(before.text)
        assert not before.text.endswith("\N{REPLACEMENT CHARACTER}")
    outputs[-1].text.encode()

"""The contract of every engine that understands text, shaped on vLLM's ``AsyncLLM``.

Two layers: an ``LLMEngine`` generates text and scores labels; ``understanding.py`` turns the words of a clip into
topics, safety, mood and a summary with any engine.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple, Protocol

from schemas.deadline import Deadline

FinishReason = Literal["stop", "length", "abort", "deadline"]

JsonSchema = Mapping[str, Any]


class PriorityClass(IntEnum):
    """Smaller goes first; within a class the earlier deadline does."""

    REALTIME = 0
    INTERACTIVE = 1
    BACKFILL = 2


@dataclass(frozen=True, slots=True)
class Prompt:
    """An instruction of ours and data that is not ours.

    ``data`` (transcript, on-screen text, title) is hostile until proven otherwise: a backend delimits it, strips chat
    control tokens, and never takes it for an instruction. ``task`` names the versioned prompt file that words it.
    """

    task: str
    instruction: str
    data: str
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat. Control tokens in ``content`` are taken out before a model reads it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation that the model continues, for callers that word their prompts themselves."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The closed vocabulary of one decision. ``descriptions`` maps each label to phrases that describe it."""

    name: str
    descriptions: dict[str, tuple[str, ...]]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in their fixed order."""
        return tuple(self.descriptions)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose tokens. ``temperature`` 0 is greedy; equal ``seed`` and prompt give equal text."""

    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """One piece of text to generate. With a ``schema`` the text is JSON that fits it.

    ``arrival_s`` is seconds on the deadline's clock; it decides between requests of one class and deadline.
    """

    request_id: str
    prompt: Prompt | Chat
    deadline: Deadline
    priority: PriorityClass = PriorityClass.REALTIME
    sampling: Sampling = field(default_factory=Sampling)
    schema: JsonSchema | None = None
    arrival_s: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class LLMOutput:
    """Text so far. ``finish_reason`` is None until the last one."""

    request_id: str
    text: str
    finish_reason: FinishReason | None = None


class EngineStats(NamedTuple):
    """Counters since start-up, then gauges of this moment. What an engine cannot know stays 0."""

    requests: int = 0
    scored: int = 0
    aborted: int = 0
    expired: int = 0
    rejected: int = 0
    failed: int = 0
    preempted: int = 0
    prompt_tokens: int = 0
    prefix_hit_tokens: int = 0
    """Of the prompt tokens: those whose keys and values were in the prefix cache."""
    output_tokens: int = 0
    cache_hits: int = 0
    """Answers from the result cache, with no work of the model."""
    cache_misses: int = 0
    running: int = 0
    waiting: int = 0
    free_blocks: int = 0
    total_blocks: int = 0

    def plus(self, **more: int) -> "EngineStats":
        """Return these, the fields that are named raised by so much."""
        return self._replace(**{name: getattr(self, name) + count for name, count in more.items()})


class LLMEngine(Protocol):
    """Generates and scores. Belongs to one event loop."""

    @property
    def model(self) -> str:
        """Name and version of the weights, for the result."""
        ...

    def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``; the last output carries the finish reason.

        Ends with ``deadline`` at the request's deadline and with ``abort`` when aborted; closing or cancelling the
        iterator aborts the request. A ``schema`` must describe an object; JSON that ends with ``length`` is cut.

        Raises ``StageError``: ``EMPTY_PROMPT`` and ``PROMPT_TOO_LONG`` (never cut silently), ``BAD_SCHEMA``,
        ``ENGINE_FAILED`` (retryable) when the engine breaks under it, ``MODEL_FAILED`` for a task that the engine
        cannot do; behind admission ``Overloaded`` at once, when it could not end in time.
        """
        ...

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels`` (they sum to 1 as probabilities).

        Every label counts as equally likely beforehand; who asks knows the real shares, and brings them in. A text that
        says nothing leaves all equal; of an overlong one the beginning is read. Raises ``DeadlineExceeded`` when the
        deadline passes first, ``StageError`` (``ENGINE_FAILED``) when the engine breaks under it, ``Overloaded`` as in
        ``generate``.
        """
        ...

    async def warm(self, *label_sets: LabelSet) -> None:
        """Prepare what depends on no request (label vectors, shared prefixes), so that no request waits for it."""
        ...

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Read ahead what is known of a prompt, so that the longer one that begins like it is answered sooner.

        Best effort: gives up silently at the deadline, and when the engine is busy or keeps no prefixes.
        """
        ...

    async def abort(self, request_id: str) -> None:
        """Give up a request; unknown ids are ignored."""
        ...

    async def health(self) -> bool:
        """Whether the engine answers, found out by really generating."""
        ...

    async def trim(self) -> None:
        """Give back memory that no request needs, after a quiet time. What ``warm`` prepared stays."""
        ...

    def stats(self) -> EngineStats:
        """Return counters. Does not mutate."""
        ...

    async def close(self) -> None:
        """End all requests (as aborted) and free everything. Safe to call twice.

        Whatever is asked for later, and scores under way, get ``ENGINE_FAILED`` (retryable).
        """
        ...

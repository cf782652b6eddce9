"""The contract of every engine that understands text, shaped on vLLM's ``AsyncLLM``.

Two layers: an ``LLMEngine`` generates text and scores labels; ``understanding.py`` turns the words of a clip into
topics, safety and a summary with any engine.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple, Protocol

from schemas.deadline import Deadline

FinishReason = Literal["stop", "length", "abort", "deadline"]


class PriorityClass(IntEnum):
    """Smaller goes first; within a class the earlier deadline does."""

    REALTIME = 0
    INTERACTIVE = 1
    BACKFILL = 2


@dataclass(frozen=True, slots=True)
class Prompt:
    """An instruction of ours and data that is not ours.

    ``data`` (transcript, on-screen text, title) is hostile until proven otherwise: a backend delimits it, strips chat
    control tokens, and never takes it for an instruction.
    """

    task: str
    instruction: str
    data: str
    language: str | None = None


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
    """How to choose tokens. ``temperature`` 0 is greedy."""

    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """One piece of text to generate."""

    request_id: str
    prompt: Prompt
    deadline: Deadline
    priority: PriorityClass = PriorityClass.REALTIME
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True)
class LLMOutput:
    """Text so far. ``finish_reason`` is None until the last one."""

    request_id: str
    text: str
    finish_reason: FinishReason | None = None


class EngineStats(NamedTuple):
    """Counters since start-up."""

    requests: int
    scored: int
    aborted: int


class LLMEngine(Protocol):
    """Generates and scores."""

    @property
    def model(self) -> str:
        """Name and version of the weights, for the result."""
        ...

    def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``; the last output carries the finish reason.

        Ends with ``deadline`` at the request's deadline. Cancelling the iterator aborts the request. Raises
        ``StageError`` for a task that the engine cannot do.
        """
        ...

    async def score(self, prompt: Prompt, labels: LabelSet, *, deadline: Deadline) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels`` (they sum to 1 as probabilities).

        Every label counts as equally likely beforehand; who asks knows the real shares, and brings them in. A text that
        says nothing leaves all equal. Raises ``DeadlineExceeded`` when the deadline passes first.
        """
        ...

    async def warm(self, *label_sets: LabelSet) -> None:
        """Prepare what depends on no request (label vectors, shared prefixes), so that no request waits for it."""
        ...

    async def abort(self, request_id: str) -> None:
        """Give up a request; unknown ids are ignored."""
        ...

    async def health(self) -> bool:
        """Whether the engine answers, found out by really asking it."""
        ...

    def stats(self) -> EngineStats:
        """Return counters. Does not mutate."""
        ...

"""The base of everything that stands in front of an engine and is one itself, so that fronts nest."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from llm_engine.base import EngineStats, LabelSet, LLMEngine, LLMOutput, LLMRequest, PriorityClass, Prompt
from schemas.deadline import Deadline


class EngineFront:
    """Implements ``LLMEngine`` by handing everything on. A front overrides what it is there for."""

    def __init__(self, engine: LLMEngine) -> None:
        self._engine = engine

    @property
    def model(self) -> str:
        """Name and version of the weights."""
        return self._engine.model

    def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``."""
        return self._engine.generate(request)

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``."""
        return await self._engine.score(prompt, labels, deadline=deadline, priority=priority)

    async def warm(self, *label_sets: LabelSet) -> None:
        """Prepare what depends on no request."""
        await self._engine.warm(*label_sets)

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Read ahead what is known of a prompt."""
        await self._engine.prefetch(prompt, deadline=deadline)

    async def abort(self, request_id: str) -> None:
        """Give up a request; unknown ids are ignored."""
        await self._engine.abort(request_id)

    async def health(self) -> bool:
        """Whether the engine answers, found out by really generating."""
        return await self._engine.health()

    async def trim(self) -> None:
        """Give back memory that no request needs."""
        await self._engine.trim()

    def stats(self) -> EngineStats:
        """Return counters. Does not mutate."""
        return self._engine.stats()

    async def close(self) -> None:
        """End all requests and free everything. Safe to call twice."""
        await self._engine.close()


async def close_all(engines: Iterable[LLMEngine]) -> None:
    """Close every one of ``engines``, then raise what the first that failed raised."""
    for outcome in await asyncio.gather(*(engine.close() for engine in engines), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome

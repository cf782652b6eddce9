"""Which engine answers which question: a table, and fronts that follow it."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from llm_engine.admission.front import close_all
from llm_engine.admission.stats import total
from llm_engine.admission.streams import closing
from llm_engine.admission.tokens import estimated_tokens, prompt_text
from llm_engine.base import Chat, EngineStats, LabelSet, LLMEngine, LLMOutput, LLMRequest, PriorityClass, Prompt
from schemas.deadline import Deadline
from schemas.errors import ConfigurationError, ErrorCode


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Engines by name.

    ``label_sets`` and ``tasks`` say who does what. Of the rest, decisions between labels go to ``scoring``; texts to
    ``light``, when prompt and text together stay below ``heavy_from_tokens`` (estimated), else to ``heavy``.
    """

    scoring: str
    light: str
    heavy: str
    heavy_from_tokens: int
    label_sets: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)

    @property
    def engines(self) -> frozenset[str]:
        """Names of all engines in the table."""
        return frozenset((self.scoring, self.light, self.heavy, *self.label_sets.values(), *self.tasks.values()))


def choose(question: LabelSet | Prompt | Chat, table: RouteTable, *, max_tokens: int = 0) -> str:
    """Return the name of the engine for ``question``: a decision between labels, or a text of ``max_tokens``."""
    if isinstance(question, LabelSet):
        return table.label_sets.get(question.name, table.scoring)
    if isinstance(question, Prompt) and question.task in table.tasks:
        return table.tasks[question.task]
    tokens = estimated_tokens(prompt_text(question)) + max_tokens
    return table.light if tokens < table.heavy_from_tokens else table.heavy


class Router:
    """Implements ``LLMEngine`` over several different ones. Belongs to one event loop."""

    def __init__(self, engines: Mapping[str, LLMEngine], table: RouteTable) -> None:
        """Raise ``ConfigurationError`` when the table names an engine that is not there."""
        if missing := table.engines - engines.keys():
            raise ConfigurationError(ErrorCode.BAD_SETTING, f"no engine is called {', '.join(sorted(missing))}")
        self._engines = engines
        self._table = table
        self._running: dict[str, LLMEngine] = {}

    @property
    def model(self) -> str:
        """Names and versions of all weights."""
        return " + ".join(dict.fromkeys(engine.model for engine in self._engines.values()))

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``."""
        engine = self._engines[choose(request.prompt, self._table, max_tokens=request.sampling.max_tokens)]
        self._running[request.request_id] = engine
        try:
            async with closing(engine.generate(request)) as stream:
                async for output in stream:
                    yield output
        finally:
            self._running.pop(request.request_id, None)

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``."""
        engine = self._engines[choose(labels, self._table)]
        return await engine.score(prompt, labels, deadline=deadline, priority=priority)

    async def warm(self, *label_sets: LabelSet) -> None:
        """Prepare every engine, with the label sets that it decides."""
        chosen = {labels.name: choose(labels, self._table) for labels in label_sets}
        await asyncio.gather(
            *(
                engine.warm(*(labels for labels in label_sets if chosen[labels.name] == name))
                for name, engine in self._engines.items()
            )
        )

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Read ahead where the prompt would go if no more came: best effort."""
        await self._engines[choose(prompt, self._table)].prefetch(prompt, deadline=deadline)

    async def abort(self, request_id: str) -> None:
        """Give up a request; unknown ids are ignored."""
        if (engine := self._running.get(request_id)) is not None:
            await engine.abort(request_id)

    async def health(self) -> bool:
        """Whether all engines answer."""
        return all(await asyncio.gather(*(engine.health() for engine in self._engines.values())))

    async def trim(self) -> None:
        """Give back memory that no request needs."""
        await asyncio.gather(*(engine.trim() for engine in self._engines.values()))

    def stats(self) -> EngineStats:
        """Return the sums of all counters. Does not mutate."""
        return total(*(engine.stats() for engine in self._engines.values()))

    async def close(self) -> None:
        """Close every engine, whatever becomes of the others."""
        await close_all(self._engines.values())

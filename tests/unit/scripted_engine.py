"""An engine that does what a test tells it to, on the loop's own clock."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from math import log

from llm_engine.base import (
    Chat,
    EngineStats,
    LabelSet,
    LLMEngine,
    LLMOutput,
    LLMRequest,
    PriorityClass,
    Prompt,
    Sampling,
)
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, StageError
from tests.unit.virtual_time import now_s

TEXT = "one two three four"


def broken() -> StageError:
    return StageError(ErrorCode.ENGINE_FAILED, "scripted", retryable=True)


class ScriptedEngine:
    """Says ``text`` a word every ``step_s``. Knows no deadlines, so that what ends at one was ended by others.

    ``hangs_after``, ``fails_after``: words. ``stubborn``: not even cancelling ends what hangs. ``scores_in_s`` None:
    never.
    """

    def __init__(self, text: str = TEXT, *, model: str = "scripted", step_s: float = 0.01) -> None:
        self.model = model
        self.text = text
        self.step_s = step_s
        self.scores_in_s: float | None = 0.01
        self.hangs_after: int | None = None
        self.fails_after: int | None = None
        self.error: Exception = broken()
        self.stubborn = False
        self.cannot_chat = False
        self.healthy: bool | None = True
        self.requests: list[LLMRequest] = []
        self.scored = 0
        self.aborted: list[str] = []
        self.ended: list[str] = []
        self.running = 0
        self.peak = 0
        self.healths = 0
        self.trims = 0
        self.warmed: list[tuple[str, ...]] = []
        self.prefetched: list[Prompt] = []
        self.closed = 0

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        self.requests.append(request)
        if self.cannot_chat and isinstance(request.prompt, Chat):
            raise StageError(ErrorCode.MODEL_FAILED, "scripted")
        self._enter()
        words = self.text.split()
        try:
            for count in range(len(words) + 1):
                if self.fails_after == count:
                    raise self.error
                if self.hangs_after == count:
                    await self._hang()
                await asyncio.sleep(self.step_s)
                if request.request_id in self.aborted:
                    yield LLMOutput(request.request_id, " ".join(words[:count]), "abort")
                    return
                yield LLMOutput(request.request_id, " ".join(words[:count]), "stop" if count == len(words) else None)
        finally:
            self.running -= 1
            self.ended.append(request.request_id)

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        self.scored += 1
        self._enter()
        try:
            if self.fails_after is not None:
                raise self.error
            await (asyncio.sleep(self.scores_in_s) if self.scores_in_s is not None else self._hang())
            return [-log(len(labels.labels))] * len(labels.labels)
        finally:
            self.running -= 1

    async def warm(self, *label_sets: LabelSet) -> None:
        if self.fails_after is not None:
            raise self.error
        self.warmed.append(tuple(labels.name for labels in label_sets))

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        self.prefetched.append(prompt)

    async def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)
        if self.hangs_after is not None:
            await self._hang()

    async def health(self) -> bool:
        self.healths += 1
        if self.healthy is None:
            await self._hang()
        return bool(self.healthy)

    async def trim(self) -> None:
        self.trims += 1

    def stats(self) -> EngineStats:
        return EngineStats(requests=len(self.requests), scored=self.scored, aborted=len(self.aborted))

    async def close(self) -> None:
        self.closed += 1

    def _enter(self) -> None:
        self.running += 1
        self.peak = max(self.peak, self.running)

    async def _hang(self) -> None:
        until_s = now_s() + 3600
        while now_s() < until_s:
            try:
                await asyncio.sleep(until_s - now_s())
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise


LABELS = LabelSet("meals", {"soup": ("hot soup",), "cake": ("sweet cake",)})


def within(seconds: float) -> Deadline:
    return Deadline.after(seconds, clock=now_s)


def never() -> Deadline:
    return Deadline.never(clock=now_s)


def asking(
    data: str = "We had soup.",
    *,
    request_id: str = "r",
    deadline: Deadline | None = None,
    priority: PriorityClass = PriorityClass.REALTIME,
    sampling: Sampling | None = None,
) -> LLMRequest:
    prompt = Prompt("summary", "Sum up.", data)
    return LLMRequest(request_id, prompt, deadline or never(), priority, sampling or Sampling(), arrival_s=now_s())


async def outputs(engine: LLMEngine, request: LLMRequest) -> list[LLMOutput]:
    return [output async for output in engine.generate(request)]


async def last(engine: LLMEngine, request: LLMRequest) -> LLMOutput:
    return (await outputs(engine, request))[-1]

"""The embedded engine as a contestant that is asked in tokens, like all the others: for what its work costs."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.llm_child import Host
from benchmarks.llm_embedded import open_bench
from llm_engine.backends.gguf_tokenizer import GgufTokenizer
from llm_engine.backends.openvino_executor import BLOCK_SIZE, Precision
from llm_engine.base import Chat, LLMOutput, LLMRequest, Message, PriorityClass, Sampling
from llm_engine.embedded import EmbeddedEngine
from schemas.deadline import Deadline

ABORTED_AFTER_TOKENS = 8
LONG_TOKENS = 64
SHORT_PROMPT = (1000, 1001)
URGENT_BUDGET_S = 60.0
"""Later than any answer: what counts is when it comes, not that it is cut."""


@contextmanager
def open_host(*, gguf: str, precision: Precision, threads: int, seats: int) -> Iterator[Host]:
    """Load ``gguf``."""
    with open_bench(gguf=gguf, precision=precision, threads=threads, seats=seats, seen_as=GivenTokens) as bench:
        asked = _Asked(bench.engine, bench.runner)
        yield Host(bench.about, {"generate": asked.generate, "urgent": asked.urgent, "abort": asked.abort})


class GivenTokens:
    """A ``Tokenizer`` for prompts that are written as numbers ("17 4023 9"), and for answers that nothing ends."""

    stop_ids: frozenset[int] = frozenset()

    def __init__(self, real: GgufTokenizer) -> None:
        self.encode = real.encode
        self.decode = real.decode

    def chat(self, chat: Chat) -> list[int]:
        """Return the numbers."""
        return [int(number) for number in chat.messages[-1].content.split()]


class _Asked:
    """What the engine is asked to do."""

    def __init__(self, engine: EmbeddedEngine, runner: asyncio.Runner) -> None:
        self._engine = engine
        self._runner = runner
        self._numbers = itertools.count()

    def generate(self, *, prompts: Sequence[Sequence[int]], new_tokens: int) -> int:
        """Continue all ``prompts`` at once by exactly ``new_tokens``; return how many came altogether."""
        return self._runner.run(self._generate(prompts, new_tokens))

    def urgent(
        self,
        *,
        low: Sequence[Sequence[int]],
        low_new_tokens: int,
        prompt: Sequence[int],
        after_tokens: int,
        last: bool,
    ) -> float:
        """Return the ms until the first token of ``prompt``, asked for once ``low`` have got ``after_tokens``.

        ``last``: it is as low as they are, and has come after them.
        """
        requests = [self._request(other, low_new_tokens, priority=PriorityClass.BACKFILL) for other in low]
        budget_s, priority = (None, PriorityClass.BACKFILL) if last else (URGENT_BUDGET_S, PriorityClass.REALTIME)
        return self._runner.run(self._urgent(requests, prompt, after_tokens, budget_s, priority))

    def abort(self, *, victim: Sequence[int], other: Sequence[int]) -> int:
        """Abort ``victim`` while ``other`` goes on; return the steps begun after that until its blocks were free."""
        return self._runner.run(self._abort(victim, other))

    async def _generate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> int:
        before = self._engine.stats().output_tokens
        requests = [self._request(prompt, new_tokens) for prompt in prompts]
        await asyncio.gather(*(self._to_end(request) for request in requests))
        return self._engine.stats().output_tokens - before

    async def _urgent(
        self,
        low: Sequence[LLMRequest],
        prompt: Sequence[int],
        after_tokens: int,
        budget_s: float | None,
        priority: PriorityClass,
    ) -> float:
        before = self._engine.stats().output_tokens
        others = [asyncio.create_task(self._to_end(request)) for request in low]
        await _until(lambda: self._engine.stats().output_tokens - before >= after_tokens)
        urgent = self._request(prompt, 1, priority=priority, budget_s=budget_s)
        began_s = time.perf_counter()
        await anext(aiter(self._engine.generate(urgent)))
        wait_ms = (time.perf_counter() - began_s) * 1e3
        for request in (*low, urgent):
            await self._engine.abort(request.request_id)
        await asyncio.gather(*others)
        await self._settle()
        return wait_ms

    async def _abort(self, victim: Sequence[int], other: Sequence[int]) -> int:
        """Every step of the two together takes one more token of each; a block may change hands meanwhile."""
        doomed, alive = (self._request(prompt, LONG_TOKENS) for prompt in (victim, other))
        before = self._engine.stats().output_tokens
        tasks = [asyncio.create_task(self._to_end(request)) for request in (doomed, alive)]
        await _until(lambda: self._engine.stats().output_tokens - before >= ABORTED_AFTER_TOKENS)
        steps, free = self._engine.steps, self._engine.stats().free_blocks
        await self._engine.abort(doomed.request_id)
        whole = free + len(victim) // BLOCK_SIZE - 1
        await _until(lambda: self._engine.stats().free_blocks >= whole or tasks[1].done())
        counted = self._engine.steps - steps
        await self._engine.abort(alive.request_id)
        await asyncio.gather(*tasks)
        await self._settle()
        return counted

    async def _settle(self) -> None:
        """Let the step under way end: what comes next must not wait for it."""
        await self._to_end(self._request(SHORT_PROMPT, 1))

    async def _to_end(self, request: LLMRequest) -> LLMOutput:
        return [output async for output in self._engine.generate(request)][-1]

    def _request(
        self,
        prompt: Sequence[int],
        new_tokens: int,
        *,
        priority: PriorityClass = PriorityClass.REALTIME,
        budget_s: float | None = None,
    ) -> LLMRequest:
        return LLMRequest(
            request_id=str(next(self._numbers)),
            prompt=Chat((Message("user", " ".join(map(str, prompt))),)),
            deadline=Deadline.never() if budget_s is None else Deadline.after(budget_s),
            priority=priority,
            sampling=Sampling(max_tokens=new_tokens),
        )


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - an engine tells nobody that it has made a step
        await asyncio.sleep(0)

"""Gives memory back when nobody asks for a while."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from llm_engine.admission.background import Background
from llm_engine.admission.front import EngineFront
from llm_engine.admission.streams import closing
from llm_engine.base import LabelSet, LLMEngine, LLMOutput, LLMRequest, PriorityClass, Prompt
from schemas.deadline import Clock, Deadline
from schemas.errors import HalfsecondError

log = logging.getLogger(__name__)


class IdleTrim(EngineFront):
    """Calls ``trim`` once the engine has had nothing to do for ``quiet_s``, and again only after more work.

    Work wakes an engine by being done; nothing stands in its way here. The waiting is an asyncio task, begun when the
    last request ends, so that a busy engine has none.
    """

    def __init__(self, engine: LLMEngine, *, quiet_s: float, clock: Clock) -> None:
        super().__init__(engine)
        self._quiet_s = quiet_s
        self._clock = clock
        self._working = 0
        self._quiet_since_s = clock()
        self._background = Background()
        self._watch: asyncio.Task[None] | None = None
        self._closed = False

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``."""
        with self._work():
            async with closing(self._engine.generate(request)) as stream:
                async for output in stream:
                    yield output

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``."""
        with self._work():
            return await self._engine.score(prompt, labels, deadline=deadline, priority=priority)

    async def warm(self, *label_sets: LabelSet) -> None:
        """Prepare what depends on no request."""
        with self._work():
            await self._engine.warm(*label_sets)

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Read ahead what is known of a prompt."""
        with self._work():
            await self._engine.prefetch(prompt, deadline=deadline)

    async def close(self) -> None:
        """Stop watching, then close the engine."""
        self._closed = True
        await self._background.close()
        await self._engine.close()

    @contextmanager
    def _work(self) -> Iterator[None]:
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            self._quiet_since_s = self._clock()
            if not self._working and not self._closed and (self._watch is None or self._watch.done()):
                self._watch = self._background.start(self._trim_when_quiet())

    async def _trim_when_quiet(self) -> None:
        while not self._working:  # the end of work begins another watch
            since_s = self._quiet_since_s
            if (left_s := since_s + self._quiet_s - self._clock()) > 0:
                await asyncio.sleep(left_s)
                continue
            await self._trim()
            if since_s == self._quiet_since_s:
                return

    async def _trim(self) -> None:
        try:
            await self._engine.trim()
        except (HalfsecondError, OSError, RuntimeError) as error:
            log.warning("the engine could not trim its memory: %s", error)

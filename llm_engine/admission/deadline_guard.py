"""Ends every request at its deadline, whatever the engine does: late, hung or broken."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial

from llm_engine.admission.background import Background
from llm_engine.admission.front import EngineFront
from llm_engine.admission.relay import Listener, Relay
from llm_engine.admission.stats import total
from llm_engine.admission.typed import typed, typed_stream
from llm_engine.base import EngineStats, LabelSet, LLMEngine, LLMOutput, LLMRequest, PriorityClass, Prompt
from schemas.deadline import Clock, Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, StageError

ABORT_S = 1.0
"""How long an engine may take to accept an abort before nobody waits for it any more."""


class DeadlineGuard(EngineFront):
    """Streams until the deadline, then ends with ``deadline`` and the text so far, and aborts the request.

    The engine runs in a task beside the stream, and is never waited for: not at the deadline, nor when the stream is
    closed, cancelled or aborted. What it raises untyped comes out as ``ENGINE_FAILED``, retryable.

    ``expired`` of the statistics holds what ended here; the engine counts the same request as aborted.
    """

    def __init__(self, engine: LLMEngine, *, health_timeout_s: float, clock: Clock) -> None:
        super().__init__(engine)
        self._health_timeout_s = health_timeout_s
        self._clock = clock
        self._running: dict[str, Listener[LLMOutput]] = {}
        self._background = Background()
        self._expired = 0

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``, no longer than until its deadline."""
        if request.deadline.expired:
            self._expired += 1
            yield LLMOutput(request.request_id, "", "deadline")
            return
        relay = Relay(typed_stream(self._engine.generate(request)), background=self._background)
        listener = self._running[request.request_id] = Listener(relay, deadline=request.deadline)
        try:
            while (output := await listener.next()) is not None:
                yield output
                if output.finish_reason is not None:
                    return
            yield self._cut_short(request.request_id, relay.latest, listener)
        finally:
            listener.close()
            if self._running.get(request.request_id) is listener:
                del self._running[request.request_id]
            self._leave(request.request_id, relay, told=listener.cut == "abort")

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``. Raises ``DeadlineExceeded`` at the deadline."""
        if deadline.expired:
            self._expired += 1
            raise DeadlineExceeded
        scoring = partial(self._engine.score, prompt, labels, deadline=deadline, priority=priority)
        try:
            return await self._background.answer(typed(scoring), deadline=deadline)
        except TimeoutError:
            self._expired += 1
            raise DeadlineExceeded from None

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Read ahead what is known of a prompt; give up silently. What is wrong shows when the request comes."""
        with suppress(TimeoutError, StageError):
            reading = partial(self._engine.prefetch, prompt, deadline=deadline)
            await self._background.answer(typed(reading), deadline=deadline)

    async def abort(self, request_id: str) -> None:
        """End the stream of a request now; the engine is told, and given a second to hear it."""
        if (listener := self._running.get(request_id)) is not None:
            listener.interrupt("abort")
        await self._tell(request_id)

    async def health(self) -> bool:
        """Whether the engine answers in time."""
        deadline = Deadline.after(self._health_timeout_s, clock=self._clock)
        try:
            return await self._background.answer(typed(self._engine.health), deadline=deadline)
        except (TimeoutError, StageError):
            return False

    def stats(self) -> EngineStats:
        """Return counters. Does not mutate."""
        return total(self._engine.stats(), EngineStats(expired=self._expired))

    async def close(self) -> None:
        """End all streams as aborted, then close the engine."""
        for listener in list(self._running.values()):
            listener.interrupt("abort")
        await self._background.close()
        await self._engine.close()

    def _cut_short(self, request_id: str, latest: LLMOutput | None, listener: Listener[LLMOutput]) -> LLMOutput:
        """Return the last output of a stream that the engine did not end itself."""
        if listener.cut is None:
            raise StageError(ErrorCode.ENGINE_FAILED, "the engine was closed", retryable=True)
        if latest is not None and latest.finish_reason is not None:
            return latest
        self._expired += listener.cut == "deadline"
        return LLMOutput(request_id, latest.text if latest else "", listener.cut)

    def _leave(self, request_id: str, relay: Relay[LLMOutput], *, told: bool) -> None:
        """End what still runs: by closing its stream, which should do, and by an abort, should it hang."""
        if relay.done:
            return
        relay.stop()
        if not told and (relay.latest is None or relay.latest.finish_reason is None):
            self._background.start(self._tell_unless_reused(request_id))

    async def _tell_unless_reused(self, request_id: str) -> None:
        if request_id not in self._running:
            await self._tell(request_id)

    async def _tell(self, request_id: str) -> None:
        """Abort in the engine. One that is too ill to hear it shows that elsewhere: in its health, to its breaker."""
        with suppress(TimeoutError, StageError):
            deadline = Deadline.after(ABORT_S, clock=self._clock)
            await self._background.answer(typed(partial(self._engine.abort, request_id)), deadline=deadline)

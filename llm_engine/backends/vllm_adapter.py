"""The engine contract over any vLLM. It adds what vLLM has not: deadlines, calibrated label scores, named errors."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar, cast, get_args

from llm_engine.backends.vllm_args import LOGPROBS
from llm_engine.backends.vllm_backend import Generation, Piece, VllmBackend
from llm_engine.backends.vllm_priority import PriorityScale
from llm_engine.base import (
    Chat,
    EngineStats,
    FinishReason,
    LabelSet,
    LLMOutput,
    LLMRequest,
    Message,
    PriorityClass,
    Prompt,
    Sampling,
)
from llm_engine.offload import until
from llm_engine.prompting import PromptBook
from llm_engine.schema import bounded
from llm_engine.scoring import LabelScorer
from llm_engine.tokenizer import Tokenizer
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, StageError

T = TypeVar("T")

_log = logging.getLogger(__name__)

HEALTH_S = 15.0
"""An engine that gives no token in this time is not well: about twenty steps of a full one on a CPU."""

HOTTEST = 2.0
"""vLLM refuses a higher temperature, at which nobody can tell the difference."""

_PROBE = Chat((Message("user", "Say yes."),))

_FINISHES = frozenset(get_args(FinishReason))


@dataclass(eq=False, slots=True)
class _Run:
    """What one generation has come to. Its task writes the newest output; its reader may be slower, and skips."""

    request_id: str
    newest: LLMOutput | None = None
    error: BaseException | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def show(self, text: str, finish_reason: FinishReason | None = None) -> None:
        self.newest = LLMOutput(self.request_id, text, finish_reason)
        self.changed.set()

    def finish(self, finish_reason: FinishReason) -> None:
        """End with the text so far."""
        self.show(self.newest.text if self.newest else "", finish_reason)

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.changed.set()

    async def next(self) -> LLMOutput:
        """Return the newest output that was not returned yet. Raises the run's error."""
        await self.changed.wait()
        self.changed.clear()
        if self.error is not None:
            raise self.error
        return cast("LLMOutput", self.newest)


class VllmAdapter:
    """An ``LLMEngine`` over a vLLM in this process or on a server. Belongs to one event loop."""

    def __init__(
        self, backend: VllmBackend, *, tokenizer: Tokenizer, prompts: PromptBook, scale: PriorityScale
    ) -> None:
        self._backend = backend
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._scale = scale
        self._scorer = LabelScorer(tokenizer, prompts, self._next_token)
        self._runs: dict[_Run, asyncio.Task[None]] = {}
        self._questions: set[asyncio.Task[Any]] = set()
        self._counts = EngineStats()
        self._numbers = count()
        self._closed = False

    @property
    def model(self) -> str:
        """Name of the weights and version of the prompts."""
        return f"{self._backend.model}+{self._prompts.version}"

    async def generate(self, request: LLMRequest) -> AsyncGenerator[LLMOutput, None]:
        """Stream the growing text of ``request``: see ``LLMEngine.generate``."""
        generation = self._generation(request)
        run = _Run(request.request_id)
        self._runs[run] = task = asyncio.create_task(self._drive(run, generation, request.deadline))
        task.add_done_callback(lambda task: self._settle(run, task))
        self._count(requests=1)
        output: LLMOutput | None = None
        try:
            while output is None or output.finish_reason is None:
                output = await run.next()
                yield output
        finally:
            await _cancelled(task)
            del self._runs[run]

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``: see ``LLMEngine.score``."""
        scores = await self._asking(self._scorer.score(prompt, labels, deadline=deadline, priority=priority))
        self._count(scored=1)
        return scores

    async def warm(self, *label_sets: LabelSet) -> None:
        """Cache the worked examples of each label set, and learn what its labels get for a text that says nothing."""
        for labels in label_sets:
            await self._asking(self._scorer.warm(labels))

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Put what is known of ``prompt`` into the prefix cache, unless somebody waits for a seat."""
        if self.stats().waiting:
            return
        request = LLMRequest(
            f"prefetch-{next(self._numbers)}", prompt, deadline, PriorityClass.INTERACTIVE, Sampling(max_tokens=1)
        )
        with suppress(StageError):
            await self._last(request)

    async def abort(self, request_id: str) -> None:
        """End the request as aborted; when this returns vLLM has been told."""
        for task in [task for run, task in self._runs.items() if run.request_id == request_id]:
            await _cancelled(task)

    async def health(self) -> bool:
        """Whether a realtime request gets a token within ``HEALTH_S``."""
        deadline = Deadline.after(HEALTH_S)
        request = LLMRequest(f"health-{next(self._numbers)}", _PROBE, deadline, sampling=Sampling(max_tokens=1))
        try:
            return await self._last(request) in {"length", "stop"}
        except StageError as error:
            _log.warning("vLLM is not healthy: %s", error)
            return False

    async def trim(self) -> None:
        """Do nothing: vLLM takes its memory once, and keeps it."""

    def stats(self) -> EngineStats:
        """Return counters. ``waiting`` are those without a first token; vLLM's blocks are not seen from here."""
        running = sum(run.newest is not None for run in self._runs)
        return self._counts._replace(running=running, waiting=len(self._runs) - running)

    async def close(self) -> None:
        """End all requests as aborted and let go of vLLM. Safe to call twice."""
        self._closed = True
        for task in [*self._runs.values(), *self._questions]:
            await _cancelled(task)
        await self._backend.close()

    def _generation(self, request: LLMRequest) -> Generation:
        """Return ``request`` in vLLM's terms. Raises ``StageError`` for what can be known to fail."""
        self._refuse_when_closed()
        schema = None if request.schema is None else bounded(request.schema)
        chat = self._prompts.chat(request.prompt)
        try:
            token_ids = self._tokenizer.chat(chat)
        except ValueError as error:
            raise StageError(ErrorCode.MODEL_FAILED, f"the model's chat template refuses the chat: {error}") from error
        self._must_fit(len(token_ids), new_tokens=request.sampling.max_tokens)
        return Generation(
            request_id=request.request_id,
            token_ids=token_ids,
            sampling=replace(request.sampling, temperature=min(request.sampling.temperature, HOTTEST)),
            stop_ids=self._tokenizer.stop_ids,
            schema=schema,
            priority=self._scale.number(request.priority, request.deadline),
        )

    def _must_fit(self, prompt_tokens: int, *, new_tokens: int) -> None:
        """Raise ``PROMPT_TOO_LONG`` when there is no room for all of it: nothing is cut silently."""
        room = self._backend.max_model_len
        if prompt_tokens + new_tokens > room:
            message = f"{prompt_tokens} prompt tokens and {new_tokens} new ones do not fit into {room}"
            raise StageError(ErrorCode.PROMPT_TOO_LONG, message)

    async def _drive(self, run: _Run, generation: Generation, deadline: Deadline) -> None:
        """Take the answer out of vLLM until it ends, the deadline passes or the task is cancelled: an abort."""
        piece: Piece | None = None
        try:
            async with until(deadline), aclosing(self._backend.stream(generation)) as pieces:
                async for piece in pieces:
                    if piece.finish_reason is None:
                        run.show(piece.text)
        except DeadlineExceeded:
            self._count(expired=1)
            run.finish("deadline")
        else:
            run.show(*_ended(piece))
        finally:
            if piece is not None:
                self._count(
                    prompt_tokens=len(generation.token_ids),
                    prefix_hit_tokens=piece.cached_tokens,
                    output_tokens=piece.output_tokens,
                )

    def _settle(self, run: _Run, task: "asyncio.Task[None]") -> None:
        """Tell the reader how the task ended, whatever ended it: nobody waits for an end that doesn't come."""
        if task.cancelled():
            self._count(aborted=1)
            run.finish("abort")
        elif (error := task.exception()) is not None:
            self._count(failed=1)
            run.fail(error)

    async def _next_token(
        self, token_ids: Sequence[int], candidates: Sequence[int], *, deadline: Deadline, priority: PriorityClass
    ) -> list[float]:
        self._must_fit(len(token_ids), new_tokens=1)
        number = self._scale.number(priority, deadline)
        scores: list[float] = []
        async with until(deadline):
            for start in range(0, len(candidates), LOGPROBS):
                part = candidates[start : start + LOGPROBS]
                scores += await self._backend.next_token(token_ids, part, priority=number)
        return scores

    async def _asking(self, question: Coroutine[Any, Any, T]) -> T:
        """Await ``question`` so that ``close`` can end it."""
        task = asyncio.ensure_future(question)
        self._questions.add(task)
        try:
            self._refuse_when_closed()
            return await task
        except asyncio.CancelledError:
            if task.cancelled() and not _is_cancelled():
                self._refuse_when_closed()
            raise
        finally:
            self._questions.discard(task)
            task.cancel()

    async def _last(self, request: LLMRequest) -> FinishReason | None:
        reason: FinishReason | None = None
        async with aclosing(self.generate(request)) as outputs:
            async for output in outputs:
                reason = output.finish_reason
        return reason

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StageError(ErrorCode.ENGINE_FAILED, "the engine is closed", retryable=True)

    def _count(self, **more: int) -> None:
        self._counts = self._counts.plus(**more)


def _ended(piece: Piece | None) -> tuple[str, FinishReason]:
    """Return the text and end of the last piece. Raises ``ENGINE_FAILED`` when it is none."""
    reason = None if piece is None else piece.finish_reason
    if piece is None or reason not in _FINISHES:
        raise StageError(ErrorCode.ENGINE_FAILED, f"vLLM ended an answer with {reason!r}", retryable=True)
    return piece.text, cast("FinishReason", reason)


def _is_cancelled() -> bool:
    """Whether somebody gives up the task that asks; else it was the one it waits for."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    """Cancel ``task`` and wait until it has ended. Its outcome is for others to look at."""
    task.cancel()
    await asyncio.wait([task])

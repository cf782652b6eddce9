"""The embedded engine: requests in, tokens out, one step after another.

The loop is schedule, execute, deliver. Everything but ``execute`` runs on the event loop it belongs to; the step itself
runs where ``Offload`` puts it (a thread, a CPU slot). The loop lives only while there is work.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

from llm_engine.base import (
    Chat,
    EngineStats,
    FinishReason,
    JsonSchema,
    LabelSet,
    LLMOutput,
    LLMRequest,
    Message,
    PriorityClass,
    Prompt,
    Sampling,
)
from llm_engine.block_manager import BlockManager
from llm_engine.constraint import Constraint
from llm_engine.executor import Chunk, Executor
from llm_engine.job import Job, PrefillJob, ProbeJob, Row, TextJob
from llm_engine.offload import Offload, in_thread
from llm_engine.prompting import PromptBook
from llm_engine.scheduler import Scheduled, Scheduler, SchedulerLimits
from llm_engine.scoring import LabelScorer
from llm_engine.sequence import Sequence as Tokens
from llm_engine.tokenizer import Tokenizer
from schemas.deadline import Clock, Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, StageError

HEALTH_S = 5.0
"""A step takes 0.05 s; an engine that needs seconds for one token is not healthy."""

CLOSE_S = 10.0
"""For the step under way; it takes 0.05 s."""

HELD_SHARE = 0.25
"""Of all blocks, for prefixes that ``warm`` keeps."""

_log = logging.getLogger(__name__)


class Constraints(Protocol):
    """Turns JSON schemas into constraints on tokens."""

    def for_schema(self, schema: JsonSchema) -> Constraint:
        """Return a new constraint. Raises ``StageError`` (``BAD_SCHEMA``)."""
        ...


class EmbeddedEngine:
    """An ``LLMEngine`` over an ``Executor``: continuous batching in order of priority. Belongs to one event loop."""

    def __init__(
        self,
        executor: Executor,
        tokenizer: Tokenizer,
        *,
        prompts: PromptBook,
        constraints: Constraints,
        name: str | None = None,
        limits: SchedulerLimits | None = None,
        offload: Offload = in_thread,
        clock: Clock = time.monotonic,
    ) -> None:
        """``name``: of the weights and their precision, for people; None: what the executor calls them."""
        self._name = name or executor.model
        self._executor = executor
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._constraints = constraints
        self._offload = offload
        self._clock = clock
        self._blocks = BlockManager(
            num_blocks=executor.num_blocks, block_size=executor.block_size, identity=executor.model
        )
        self._scheduler = Scheduler(limits or SchedulerLimits(), self._blocks, clock=clock)
        self._scorer = LabelScorer(tokenizer, prompts, self._next_token)
        self._jobs: dict[Tokens, Job[Any]] = {}
        self._held: list[Tokens] = []
        self._loop: asyncio.Task[None] | None = None
        self._closed = False
        self._counts = EngineStats()
        self.steps = 0
        """Executed since start-up."""

    @property
    def model(self) -> str:
        """Name of the weights, their precision and the prompts' version."""
        return f"{self._name}+{self._prompts.version}"

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``; see ``LLMEngine.generate``."""
        job = self._text_job(request)
        self._count(requests=1)
        shown = ""
        try:
            self._submit(job)
            while not job.finished:
                if not await job.changed(request.deadline):
                    self._count(expired=1)
                    self._end(job, "deadline")
                elif not job.finished and job.text != shown:
                    yield LLMOutput(request.request_id, shown := job.text)
            job.raise_error()
            yield LLMOutput(request.request_id, job.text, job.finish_reason)
        finally:
            self._count(aborted=int(not job.finished))  # nobody listens any more
            self._drop(job)

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return calibrated log-probabilities over ``labels.labels``; see ``LLMEngine.score``."""
        if deadline.expired:
            raise DeadlineExceeded
        self._count(scored=1)
        return await self._scorer.score(prompt, labels, deadline=deadline, priority=priority)

    async def warm(self, *label_sets: LabelSet) -> None:
        """Compute the shared prefix of each label set's questions and keep it for good."""
        for labels in label_sets:
            await self._hold(self._scorer.shared_prefix(labels))
            await self._scorer.warm(labels)

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Compute the full blocks of ``prompt``, unless better work fills the time until ``deadline``."""
        try:
            token_ids = self._tokenizer.chat(self._prompts.chat(prompt))
            await self._prefill(token_ids, deadline=deadline, priority=PriorityClass.INTERACTIVE)
        except StageError as error:
            _log.debug("a prefix was not read ahead: %s", error)

    async def abort(self, request_id: str) -> None:
        """Give up a request, its blocks at once; unknown ids are ignored."""
        for job in [job for job in self._jobs.values() if job.request_id == request_id]:
            self._count(aborted=1)
            self._end(job, "abort")

    async def health(self) -> bool:
        """Whether a token really comes out."""
        request = LLMRequest(
            request_id=f"health/{uuid4().hex}",
            prompt=Chat((Message("user", "Is anybody there?"),)),
            deadline=Deadline.after(HEALTH_S),
            sampling=Sampling(max_tokens=1),
        )
        try:
            outputs = [output async for output in self.generate(request)]
        except StageError as error:
            _log.warning("the embedded engine is not healthy: %s", error)
            return False
        return outputs[-1].finish_reason in ("stop", "length")

    async def trim(self) -> None:
        """Give the memory of unused blocks back to the system, unless a request is under way."""
        if not self._jobs and not self._closed:
            unused = self._blocks.forget_unreferenced()
            await self._offload(partial(self._executor.trim, unused), deadline=Deadline.never())

    def stats(self) -> EngineStats:
        """Return counters. Does not mutate."""
        scheduler = self._scheduler
        return self._counts._replace(
            preempted=scheduler.preempted,
            prefix_hit_tokens=scheduler.prefix_hit_tokens,
            running=scheduler.running,
            waiting=scheduler.waiting,
            free_blocks=self._blocks.available,
            total_blocks=self._blocks.num_blocks,
        )

    def check_integrity(self) -> None:
        """Raise ``IntegrityError`` when a block is lost."""
        self._scheduler.check_integrity(held=tuple(self._held))

    async def close(self) -> None:
        """Abort all requests and free the executor. Safe to call twice."""
        self._closed = True
        for job in list(self._jobs.values()):
            self._end(job, "abort")
        if self._loop is not None:
            await asyncio.wait((self._loop,), timeout=CLOSE_S)  # ends by itself after the step under way
        self._executor.close()

    # Requests

    def _text_job(self, request: LLMRequest) -> TextJob:
        constraint = None if request.schema is None else self._constraints.for_schema(request.schema)
        token_ids = self._tokenizer.chat(self._prompts.chat(request.prompt))
        self._check_fits(len(token_ids), request.sampling.max_tokens)
        tokens = Tokens(token_ids, request.priority, request.deadline.at_s, request.arrival_s)
        return TextJob(request, tokens, tokenizer=self._tokenizer, constraint=constraint)

    def _check_fits(self, prompt_tokens: int, new_tokens: int) -> None:
        held = sum(len(tokens.block_table) for tokens in self._held)
        room = min(self._executor.max_model_len, (self._blocks.num_blocks - held) * self._blocks.block_size)
        if prompt_tokens + new_tokens > room:
            message = f"{prompt_tokens} prompt tokens and {new_tokens} new ones are more than the {room} that fit"
            raise StageError(ErrorCode.PROMPT_TOO_LONG, message)

    async def _next_token(
        self, token_ids: Sequence[int], candidates: Sequence[int], *, deadline: Deadline, priority: PriorityClass
    ) -> Sequence[float]:
        self._check_fits(len(token_ids), 0)
        job = ProbeJob(Tokens(list(token_ids), priority, deadline.at_s, self._clock()), candidates)
        await self._run_to_end(job, deadline=deadline)
        return job.log_probabilities

    async def _prefill(self, token_ids: list[int], *, deadline: Deadline, priority: PriorityClass) -> None:
        whole = len(token_ids) // self._blocks.block_size * self._blocks.block_size
        if whole == 0:
            return
        self._check_fits(whole, 0)
        tokens = Tokens(token_ids[:whole], priority, deadline.at_s, self._clock(), wants_logits=False)
        await self._run_to_end(PrefillJob(tokens), deadline=deadline)

    async def _hold(self, token_ids: list[int]) -> None:
        """Compute a prefix and refer to its blocks for as long as the engine lives."""
        await self._prefill(token_ids, deadline=Deadline.never(), priority=PriorityClass.REALTIME)
        holder = Tokens([*token_ids, 0, 0])  # adoption leaves two tokens to compute
        self._blocks.adopt_prefix(holder)
        held = sum(len(tokens.block_table) for tokens in self._held) + len(holder.block_table)
        if held <= HELD_SHARE * self._blocks.num_blocks:
            self._held.append(holder)
        else:
            self._blocks.release(holder)

    async def _run_to_end(self, job: Job[Any], *, deadline: Deadline) -> None:
        """Have ``job`` computed. Raises ``DeadlineExceeded``; ``StageError`` when the engine breaks or closes."""
        try:
            self._submit(job)
            while not job.finished:
                if not await job.changed(deadline):
                    raise DeadlineExceeded
            job.raise_error()
            if job.finish_reason == "abort":
                raise StageError(ErrorCode.ENGINE_FAILED, "the engine was closed", retryable=True)
        finally:
            self._drop(job)

    # The loop

    def _submit(self, job: Job[Any]) -> None:
        if self._closed:
            raise StageError(ErrorCode.ENGINE_FAILED, "the engine is closed", retryable=True)
        self._jobs[job.tokens] = job
        self._count(prompt_tokens=job.tokens.prompt_len)
        self._scheduler.add(job.tokens)
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Step while there is work."""
        try:
            while step := self._scheduler.schedule():
                work = [(_chunk(scheduled), self._jobs[scheduled.sequence]) for scheduled in step]
                picks = await self._offload(partial(self._execute, work), deadline=Deadline.never())
                self.steps += 1
                self._scheduler.complete(step)
                for (chunk, job), pick in zip(work, picks, strict=True):
                    if not job.finished:  # not given up while the step was computed
                        self._deliver(chunk, job, pick)
        except asyncio.CancelledError:  # the event loop is closing
            self._fail_all("the engine was stopped")
            raise
        except Exception as error:  # noqa: BLE001  (whatever broke, those who wait must hear of it)
            _log.exception("a step of the embedded engine failed")
            self._fail_all(f"a step failed: {error}")
            self._blocks.forget_unreferenced()
        finally:
            self._loop = None

    def _execute(self, work: list[tuple[Chunk, Job[Any]]]) -> list[Any]:
        """Compute one step; return what each job makes of its logits. Runs outside the event loop."""
        rows = iter(self._executor.execute([chunk for chunk, _ in work]))
        return [_pick(job, next(rows)) if chunk.wants_logits else None for chunk, job in work]

    def _deliver(self, chunk: Chunk, job: Job[Any], pick: Any) -> None:
        if isinstance(pick, StageError):
            self._fail(job, pick)
        elif chunk.wants_logits:
            job.take(pick)
            self._count(output_tokens=int(isinstance(job, TextJob)))
        elif chunk.end == job.tokens.prompt_len:
            job.end("stop")
        if job.finished:
            self._drop(job)

    def _end(self, job: Job[Any], reason: FinishReason) -> None:
        job.end(reason)
        self._drop(job)

    def _drop(self, job: Job[Any]) -> None:
        """Free what ``job`` holds. Nothing happens a second time."""
        if self._jobs.pop(job.tokens, None) is not None:
            self._scheduler.finish(job.tokens)

    def _fail_all(self, message: str) -> None:
        for job in list(self._jobs.values()):
            self._fail(job, StageError(ErrorCode.ENGINE_FAILED, message, retryable=True))

    def _fail(self, job: Job[Any], error: StageError) -> None:
        self._count(failed=1)
        job.fail(error)
        self._drop(job)

    def _count(self, **more: int) -> None:
        self._counts = self._counts.plus(**more)


def _pick(job: Job[Any], row: Row) -> Any:
    """Return the job's pick, or the error that only this job suffers."""
    try:
        return job.pick(row)
    except StageError as error:
        return error


def _chunk(scheduled: Scheduled) -> Chunk:
    sequence, end = scheduled.sequence, scheduled.sequence.num_computed + scheduled.num_tokens
    return Chunk(
        token_ids=sequence.token_ids[:end],
        start=sequence.num_computed,
        end=end,
        block_table=tuple(sequence.block_table),
        wants_logits=sequence.wants_logits and scheduled.completes,
    )

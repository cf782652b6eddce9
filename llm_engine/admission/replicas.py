"""Several engines with the same weights, of which some may be dead."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from llm_engine.admission.background import Background
from llm_engine.admission.breaker import Breaker, BreakerSettings, BreakerState
from llm_engine.admission.continuation import Continuation, TextChanged
from llm_engine.admission.front import close_all
from llm_engine.admission.result_key import has_one_answer
from llm_engine.admission.stats import total
from llm_engine.admission.streams import closing
from llm_engine.admission.typed import typed
from llm_engine.base import (
    Chat,
    EngineStats,
    FinishReason,
    LabelSet,
    LLMEngine,
    LLMOutput,
    LLMRequest,
    PriorityClass,
    Prompt,
)
from schemas.deadline import Clock, Deadline
from schemas.errors import ErrorCode, HalfsecondError, StageError

AFFINITY_CHARS = 16
"""Of the data. Among equally loaded replicas its beginning decides, so that a clip finds the prefix that was read ahead
for it; longer, and the beginning would change when more of the clip becomes known."""


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """When to ask a replica for its health.

    One that has answered nobody for ``period_s`` is asked, and is dead when that takes longer than ``timeout_s``.
    ``warm_timeout_s``: how long preparing one may take, at start-up and when it came back.
    """

    period_s: float = 5.0
    timeout_s: float = 5.0
    warm_timeout_s: float = 60.0


@dataclass(slots=True, eq=False)
class Replica:
    """One engine. ``load``: requests that it has now."""

    number: int
    engine: LLMEngine
    breaker: Breaker
    load: int = 0
    answered_at_s: float = float("-inf")

    def preference(self, beginning: str) -> int:
        """Return a number that is the lowest for another replica with each beginning (rendezvous hashing)."""
        return zlib.crc32(f"{self.number} {beginning}".encode("utf-8", "surrogatepass"))


def choose(replicas: Sequence[Replica], *, beginning: str, now_s: float) -> Replica | None:
    """Return the replica for a prompt: a healthy one before one on trial, then the least loaded. None: all are dead."""
    able = [replica for replica in replicas if replica.breaker.can_begin(now_s)]
    return min(
        able,
        key=lambda r: (r.breaker.state(now_s) is not BreakerState.CLOSED, r.load, r.preference(beginning)),
        default=None,
    )


@dataclass(slots=True, eq=False)
class _Call:
    """A request that runs, on ``replica`` at the moment; ``failed`` had it before."""

    request: LLMRequest
    replica: Replica
    text: Continuation = field(default_factory=Continuation)
    failed: dict[Replica, StageError] = field(default_factory=dict)
    aborted: bool = False


@dataclass(slots=True)
class _Attempt:
    answered: bool = False


class Replicas:
    """Implements ``LLMEngine`` over engines with equal weights. Belongs to one event loop.

    When a replica fails (``ENGINE_FAILED``, retryable) the request begins again on the next one, with what is left of
    its deadline. What was streamed is never taken back: the new text must begin with it, which equal weights make
    likely for greedy and seeded sampling, or the stream ends with ``TextChanged``; with free sampling there is no
    second try once text was sent. Without a living replica ``ENGINE_FAILED`` is raised at once.

    The engines raise typed errors only and are never late: each stands behind its own ``DeadlineGuard``.
    """

    def __init__(
        self,
        engines: Sequence[LLMEngine],
        *,
        probe: ProbeSettings,
        breaker: BreakerSettings,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        """``chance`` returns a number from 0 to 1, evenly: the jitter of cool-downs."""
        self._replicas = [Replica(i, engine, Breaker(breaker, chance=chance)) for i, engine in enumerate(engines)]
        self._probe = probe
        self._clock = clock
        self._calls: dict[str, _Call] = {}
        self._label_sets: dict[str, LabelSet] = {}
        self._background = Background()
        self._probing: asyncio.Task[None] | None = None

    @property
    def model(self) -> str:
        """Name and version of the weights that all have."""
        return self._replicas[0].engine.model

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``, from as many replicas as it takes."""
        self._keep_probing()
        call = self._calls[request.request_id] = _Call(request, self._choose(request.prompt, {}))
        try:
            while True:
                try:
                    async with closing(self._attempt_text(call)) as stream:
                        async for output in stream:
                            yield output
                except StageError as error:
                    cut = self._move_on(call, error)
                else:
                    return
                if cut is not None:
                    yield LLMOutput(request.request_id, call.text.sent, cut)
                    return
        finally:
            if self._calls.get(request.request_id) is call:
                del self._calls[request.request_id]

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``, from the first replica that gives them."""
        self._keep_probing()
        failed: dict[Replica, StageError] = {}
        while True:
            replica = self._choose(prompt, failed)
            try:
                with self._attempt(replica) as attempt:
                    scores = await replica.engine.score(prompt, labels, deadline=deadline, priority=priority)
                    attempt.answered = True
                    return scores
            except StageError as error:
                if not _is_the_replicas(error):
                    raise
                failed[replica] = error

    async def warm(self, *label_sets: LabelSet) -> None:
        """Prepare all replicas. Raises only when none could be."""
        self._keep_probing()
        self._label_sets |= {labels.name: labels for labels in label_sets}
        outcomes = await asyncio.gather(*map(self._warm_at_start, self._replicas))
        problems = [problem for problem in outcomes if problem is not None]
        if len(problems) == len(outcomes):
            raise problems[0]

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Read ahead on the replica that the prompt would go to now."""
        replica = choose(self._replicas, beginning=_beginning(prompt), now_s=self._clock())
        if replica is not None:
            await replica.engine.prefetch(prompt, deadline=deadline)

    async def abort(self, request_id: str) -> None:
        """Give up a request on the replica that has it; unknown ids are ignored."""
        if (call := self._calls.get(request_id)) is not None:
            call.aborted = True
            await call.replica.engine.abort(request_id)

    async def health(self) -> bool:
        """Whether any replica answers."""
        return any(await asyncio.gather(*map(self._answers, self._replicas)))

    async def trim(self) -> None:
        """Give back memory that no request needs, on all replicas."""
        await asyncio.gather(*(replica.engine.trim() for replica in self._replicas))

    def stats(self) -> EngineStats:
        """Return the sums of all counters; a request that began again is counted twice. Does not mutate."""
        return total(*(replica.engine.stats() for replica in self._replicas))

    async def close(self) -> None:
        """Stop probing, then close every replica."""
        await self._background.close()
        await close_all(replica.engine for replica in self._replicas)

    def _choose(self, prompt: Prompt | Chat, failed: dict[Replica, StageError]) -> Replica:
        left = [replica for replica in self._replicas if replica not in failed]
        replica = choose(left, beginning=_beginning(prompt), now_s=self._clock())
        if replica is None:
            message = f"none of {len(self._replicas)} replicas answers"
            raise StageError(ErrorCode.ENGINE_FAILED, message, retryable=True) from next(iter(failed.values()), None)
        return replica

    async def _attempt_text(self, call: _Call) -> AsyncIterator[LLMOutput]:
        with self._attempt(call.replica) as attempt:
            async with closing(call.replica.engine.generate(call.request)) as stream:
                async for output in stream:
                    attempt.answered |= bool(output.text) or output.finish_reason in ("stop", "length")
                    if (news := call.text.take(output)) is not None:
                        yield news

    def _move_on(self, call: _Call, error: StageError) -> FinishReason | None:
        """Give ``call`` another replica, or return how it ends now. Raises ``error`` when there is no second try."""
        if not _is_the_replicas(error):
            raise error
        call.failed[call.replica] = error
        if call.aborted:
            return "abort"
        if call.request.deadline.expired:
            return "deadline"
        if call.text.sent and not has_one_answer(call.request.sampling):
            raise error
        call.replica = self._choose(call.request.prompt, call.failed)
        return None

    @contextmanager
    def _attempt(self, replica: Replica) -> Iterator[_Attempt]:
        """Count a request of ``replica``, and tell its breaker how it ends."""
        epoch = replica.breaker.begin(self._clock())
        attempt = _Attempt()
        replica.load += 1
        try:
            yield attempt
        except StageError as error:
            if _is_the_replicas(error):
                attempt.answered = False
                replica.breaker.failed(epoch, self._clock())
            raise
        finally:
            replica.load -= 1
            if attempt.answered:
                replica.answered_at_s = self._clock()
                replica.breaker.succeeded(epoch)
            else:
                replica.breaker.abandoned(epoch)

    def _keep_probing(self) -> None:
        if self._probing is None:  # not begun by the constructor, which may run in a thread without a loop
            self._probing = self._background.start(self._probe_all())

    async def _probe_all(self) -> None:
        while True:
            await asyncio.sleep(self._probe.period_s)
            await asyncio.gather(*map(self._probe_one, self._replicas))

    async def _probe_one(self, replica: Replica) -> None:
        """Ask a silent replica whether it is alive; prepare one that came back, whose caches are empty."""
        now_s = self._clock()
        if now_s - replica.answered_at_s < self._probe.period_s or not replica.breaker.can_begin(now_s):
            return
        comes_back = replica.breaker.state(now_s) is BreakerState.HALF_OPEN
        epoch = replica.breaker.begin(now_s)
        if await self._answers(replica) and (not comes_back or await self._warm(replica) is None):
            replica.breaker.succeeded(epoch)
        else:
            replica.breaker.failed(epoch, self._clock(), fatal=True)

    async def _answers(self, replica: Replica) -> bool:
        deadline = Deadline.after(self._probe.timeout_s, clock=self._clock)
        try:
            return await self._background.answer(typed(replica.engine.health), deadline=deadline)
        except (TimeoutError, HalfsecondError):
            return False

    async def _warm_at_start(self, replica: Replica) -> HalfsecondError | None:
        epoch = replica.breaker.begin(self._clock())
        problem = await self._warm(replica)
        if problem is not None:
            replica.breaker.failed(epoch, self._clock(), fatal=True)
        return problem

    async def _warm(self, replica: Replica) -> HalfsecondError | None:
        """Prepare ``replica``; return what went wrong."""
        deadline = Deadline.after(self._probe.warm_timeout_s, clock=self._clock)
        warm = partial(replica.engine.warm, *self._label_sets.values())
        try:
            await self._background.answer(typed(warm), deadline=deadline)
        except TimeoutError:
            return StageError(ErrorCode.ENGINE_FAILED, "a replica could not be prepared in time", retryable=True)
        except HalfsecondError as error:
            return error
        return None


def _is_the_replicas(error: StageError) -> bool:
    """Whether the replica is to blame, and another may do better."""
    return error.retryable and error.code is ErrorCode.ENGINE_FAILED and not isinstance(error, TextChanged)


def _beginning(prompt: Prompt | Chat) -> str:
    if isinstance(prompt, Prompt):
        return prompt.data[:AFFINITY_CHARS]
    return prompt.messages[-1].content[:AFFINITY_CHARS] if prompt.messages else ""

"""Answers that were given before, or are being given: no model works twice for one question."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from llm_engine.admission.background import Background
from llm_engine.admission.continuation import Continuation
from llm_engine.admission.flights import Flights, Passenger
from llm_engine.admission.front import EngineFront
from llm_engine.admission.result_key import ResultKeys, has_one_answer
from llm_engine.admission.result_store import ResultStore
from llm_engine.admission.stats import total
from llm_engine.admission.streams import closing
from llm_engine.base import EngineStats, LabelSet, LLMEngine, LLMOutput, LLMRequest, PriorityClass, Prompt
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, StageError

T = TypeVar("T")

Scores = tuple[float, ...]

_FLOAT_BYTES = 32
"""Of a Python float and its place in a tuple."""

_LEADERS_TROUBLE = frozenset({ErrorCode.OVERLOADED, ErrorCode.DEADLINE_EXCEEDED})
"""Errors that come of one request's deadline, not of the question."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Bounds of each of the two stores, texts and scores."""

    max_entries: int
    max_bytes: int


class ResultCache(EngineFront):
    """Keeps finished answers (``stop``, ``length``, scores) of questions that have only one: greedy or seeded.

    Who asks what is being computed follows along. The computation is nobody's: when the one it was begun for is
    cancelled or aborted, it goes on for the others; when it ends at that one's deadline, one of the others begins it
    again (``Continuation``). A follower with an earlier deadline leaves at its own.

    A hit is an answer without work of the model, from the store or by following. A request past its deadline is not
    looked up: the engine says how that ends.
    """

    def __init__(self, engine: LLMEngine, *, keys: ResultKeys, limits: StoreLimits) -> None:
        super().__init__(engine)
        self._keys = keys
        self._texts = ResultStore[LLMOutput](max_entries=limits.max_entries, max_bytes=limits.max_bytes)
        self._scores = ResultStore[Scores](max_entries=limits.max_entries, max_bytes=limits.max_bytes)
        self._background = Background()
        self._text_flights = Flights[LLMOutput](background=self._background)
        self._score_flights = Flights[Scores](background=self._background)
        self._following: dict[str, Passenger[LLMOutput]] = {}
        self._numbers = itertools.count()
        self._own = EngineStats()
        self._closed = False

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``, or the finished one."""
        if self._closed or request.deadline.expired or not has_one_answer(request.sampling):
            async with closing(self._engine.generate(request)) as stream:
                async for output in stream:
                    yield output
            return
        key = self._keys.of_text(request, model=self._engine.model)
        if (known := self._texts.get(key)) is not None:
            self._count(requests=1, cache_hits=1)
            yield replace(known, request_id=request.request_id)
            return
        async with closing(self._share(key, request)) as stream:
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
        if self._closed or deadline.expired:
            return await self._engine.score(prompt, labels, deadline=deadline, priority=priority)
        key = self._keys.of_score(prompt, labels, model=self._engine.model)
        if (known := self._scores.get(key)) is not None:
            self._count(scored=1, cache_hits=1)
            return known

        ask = partial(self._engine.score, prompt, labels, deadline=deadline, priority=priority)
        source = partial(self._compute_scores, key, ask)
        follows = False
        while True:
            passenger = self._score_flights.board(key, priority=priority, deadline=deadline, source=source)
            follows = self._count_boarding(passenger, follows=follows, scored=1)
            try:
                scores = await passenger.listener.next()
            except StageError as error:
                if follows and error.code in _LEADERS_TROUBLE:
                    continue
                raise
            finally:
                self._score_flights.leave(passenger)
            if scores is not None:
                return scores
            if passenger.listener.cut == "deadline":
                raise DeadlineExceeded
            raise StageError(ErrorCode.ENGINE_FAILED, "the engine was closed", retryable=True)

    async def abort(self, request_id: str) -> None:
        """Give up a request; what it shares with others goes on for them. Unknown ids are ignored."""
        if (passenger := self._following.get(request_id)) is not None:
            passenger.listener.interrupt("abort")
            self._text_flights.leave(passenger)
        else:
            await self._engine.abort(request_id)

    def stats(self) -> EngineStats:
        """Return the engine's counters, and those of the cache. Does not mutate."""
        return total(self._engine.stats(), self._own)

    async def close(self) -> None:
        """End all requests (as aborted), then close the engine, which refuses what comes later."""
        self._closed = True
        for passenger in list(self._following.values()):
            passenger.listener.interrupt("abort")
        await self._background.close()
        await self._engine.close()

    async def _share(self, key: str, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream from the flight of ``key``, and from the next one when that ends for reasons of its leader alone."""
        text = Continuation()
        follows = False
        while True:
            passenger = self._text_flights.board(
                key,
                priority=request.priority,
                deadline=request.deadline,
                source=partial(self._compute_text, key, request),
            )
            self._following[request.request_id] = passenger
            follows = self._count_boarding(passenger, follows=follows, requests=1)
            try:
                while (output := await passenger.listener.next()) is not None:
                    if follows and output.finish_reason in ("abort", "deadline"):
                        break  # the leader's, not this one's
                    if (news := text.take(output)) is not None:
                        yield LLMOutput(request.request_id, news.text, news.finish_reason)
                    if output.finish_reason is not None:
                        return
                else:
                    yield _cut_short(request.request_id, text, passenger)
                    return
            except StageError as error:
                if not (follows and error.code in _LEADERS_TROUBLE):
                    raise
            finally:
                self._text_flights.leave(passenger)
                if self._following.get(request.request_id) is passenger:
                    del self._following[request.request_id]

    async def _compute_text(self, key: str, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        shared = replace(request, request_id=f"{request.request_id}~{next(self._numbers)}")
        async with closing(self._engine.generate(shared)) as stream:
            async for output in stream:
                if output.finish_reason in ("stop", "length"):
                    self._texts.put(key, output, value_bytes=len(output.text.encode("utf-8", "surrogatepass")))
                yield output

    async def _compute_scores(self, key: str, ask: Callable[[], Awaitable[Sequence[float]]]) -> AsyncIterator[Scores]:
        scores = tuple(await ask())
        self._scores.put(key, scores, value_bytes=_FLOAT_BYTES * len(scores))
        yield scores

    def _count_boarding(self, passenger: Passenger[T], *, follows: bool, **asked: int) -> bool:
        """Count a hit or a miss, once a request: one that followed, and then leads, was no hit after all.

        Return whether the passenger follows now.
        """
        if passenger.leads and follows:
            self._count(cache_hits=-1, cache_misses=1, **{name: -count for name, count in asked.items()})
        elif passenger.leads:
            self._count(cache_misses=1)
        elif not follows:
            self._count(cache_hits=1, **asked)
        return not passenger.leads

    def _count(self, **events: int) -> None:
        self._own = self._own.plus(**events)


def _cut_short(request_id: str, text: Continuation, passenger: Passenger[LLMOutput]) -> LLMOutput:
    """Return the last output of one who leaves before the flight ends."""
    cut = passenger.listener.cut
    if cut is None:
        raise StageError(ErrorCode.ENGINE_FAILED, "the engine was closed", retryable=True)
    latest = passenger.flight.relay.latest
    goes_on = latest is not None and latest.text.startswith(text.sent)
    return LLMOutput(request_id, latest.text if latest and goes_on else text.sent, cut)

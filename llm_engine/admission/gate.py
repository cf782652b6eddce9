"""The door of one engine: turns away who would be late, and seats the others in order."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from llm_engine.admission.forecast import Forecast
from llm_engine.admission.front import EngineFront
from llm_engine.admission.seats import SeatQueue, Ticket
from llm_engine.admission.stats import total
from llm_engine.admission.streams import closing
from llm_engine.base import (
    Chat,
    EngineStats,
    LabelSet,
    LLMEngine,
    LLMOutput,
    LLMRequest,
    Message,
    PriorityClass,
    Prompt,
    Sampling,
)
from schemas.deadline import Clock, Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, Overloaded, StageError

CALIBRATION_S = 10.0
"""The longest that start-up waits to learn what the engine costs."""

CALIBRATION_TOKENS = 16

CALIBRATION_TEXTS = (
    "Warm up, please: write one short sentence about the weather in the mountains.",
    "Now in earnest: describe in a few words a train that arrives at a small station late at night.",
)
"""The first is not counted: it pays for what happens only once. They begin differently, so that no prefix is shared."""

Unseated = Literal["abort", "deadline"]


@dataclass(slots=True, eq=False)
class _Waiter:
    """Somebody who waits for a seat. ``request_id`` is None for a score."""

    request_id: str | None
    woken: asyncio.Future[None]
    aborted: bool = False

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    def abort(self) -> None:
        self.aborted = True
        self.wake()


class SeatGate(EngineFront):
    """Lets requests into an engine as ``seats`` says. A score holds a seat like a text, only shorter.

    Raises ``Overloaded`` at once for a request that ``forecast`` expects past its deadline. At the deadline who still
    waits leaves as from the engine itself: a text with ``deadline``, a score with ``DeadlineExceeded``.
    """

    def __init__(self, engine: LLMEngine, seats: SeatQueue, *, forecast: Forecast, clock: Clock) -> None:
        super().__init__(engine)
        self._seats = seats
        self._forecast = forecast
        self._clock = clock
        self._waiters: dict[int, _Waiter] = {}
        self._never_seated = EngineStats()

    async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
        """Stream the growing text of ``request``. Raises ``Overloaded`` besides what the engine raises."""
        if _hurries(request.deadline):
            work_s = self._forecast.generation_s(request)
            self._refuse_late(work_s, priority=request.priority, deadline=request.deadline, requests=1)
        ticket = self._request(request.priority, request.deadline)
        if unseated := await self._wait(ticket, request.deadline, request_id=request.request_id):
            self._count(requests=1, expired=int(unseated == "deadline"), aborted=int(unseated == "abort"))
            yield LLMOutput(request.request_id, "", unseated)
            return
        try:
            async with closing(self._engine.generate(request)) as stream:
                async for output in stream:
                    yield output
        finally:
            self._release(ticket)

    async def score(
        self,
        prompt: Prompt,
        labels: LabelSet,
        *,
        deadline: Deadline,
        priority: PriorityClass = PriorityClass.REALTIME,
    ) -> Sequence[float]:
        """Return log-probabilities over ``labels.labels``. Raises ``Overloaded`` besides what the engine raises."""
        if _hurries(deadline):
            self._refuse_late(self._forecast.scoring_s.value, priority=priority, deadline=deadline, scored=1)
        ticket = self._request(priority, deadline)
        if unseated := await self._wait(ticket, deadline, request_id=None):
            self._count(scored=1, expired=int(unseated == "deadline"), aborted=int(unseated == "abort"))
            if unseated == "deadline":
                raise DeadlineExceeded
            raise StageError(ErrorCode.ENGINE_FAILED, "the engine was closed", retryable=True)
        try:
            return await self._engine.score(prompt, labels, deadline=deadline, priority=priority)
        finally:
            self._release(ticket)

    async def warm(self, *label_sets: LabelSet) -> None:
        """Prepare the engine, then measure what it costs, so that the first forecast is not a guess."""
        await self._engine.warm(*label_sets)
        with suppress(StageError):  # an engine that cannot chat has no such costs
            await self._calibrate()

    async def prefetch(self, prompt: Prompt, *, deadline: Deadline) -> None:
        """Read ahead when a seat is free, and one is still free for realtime then; else do nothing."""
        if not self._seats.has_room(PriorityClass.INTERACTIVE):
            return
        ticket = self._request(PriorityClass.INTERACTIVE, deadline)
        try:
            await self._engine.prefetch(prompt, deadline=deadline)
        finally:
            self._pass_on(ticket)

    async def abort(self, request_id: str) -> None:
        """Give up a request, waiting or seated; unknown ids are ignored."""
        for waiter in list(self._waiters.values()):
            if waiter.request_id == request_id:
                waiter.abort()
        await self._engine.abort(request_id)

    def stats(self) -> EngineStats:
        """Return the engine's counters and those of requests that never reached it. Does not mutate."""
        return total(self._engine.stats(), self._never_seated._replace(waiting=self._seats.waiting))

    async def close(self) -> None:
        """Send away who waits (as aborted), then close the engine."""
        for waiter in list(self._waiters.values()):
            waiter.abort()
        await self._engine.close()

    def _refuse_late(self, work_s: float, *, priority: PriorityClass, deadline: Deadline, **offered: int) -> None:
        wait_s = 0.0
        if not self._seats.has_room(priority):
            ahead = self._seats.ahead(priority=priority, deadline_s=deadline.at_s)
            wait_s = self._forecast.wait_s(ahead=ahead, seats=self._seats.limit(priority))
        try:
            self._forecast.refuse_late(wait_s + work_s, deadline=deadline)
        except Overloaded:
            self._count(rejected=1, **offered)
            raise

    def _request(self, priority: PriorityClass, deadline: Deadline) -> Ticket:
        return self._seats.request(priority=priority, deadline_s=deadline.at_s, now_s=self._clock())

    async def _wait(self, ticket: Ticket, deadline: Deadline, *, request_id: str | None) -> Unseated | None:
        """Return None once ``ticket`` has its seat, or why it has been given up."""
        if not ticket.granted:
            waiter = self._waiters[ticket.number] = _Waiter(request_id, asyncio.get_running_loop().create_future())
            try:
                never = deadline.at_s == float("inf")
                await asyncio.wait([waiter.woken], timeout=None if never else deadline.remaining())
            except asyncio.CancelledError:  # a front that shares answers leaves like this, too
                self._give_up(ticket)
                asked = {"scored" if request_id is None else "requests": 1}
                self._count(**asked, expired=int(deadline.expired), aborted=int(not deadline.expired))
                raise
            finally:
                del self._waiters[ticket.number]
            if waiter.aborted:
                self._give_up(ticket)
                return "abort"
        if ticket.granted and not deadline.expired:
            return None
        self._give_up(ticket)
        return "deadline"

    def _give_up(self, ticket: Ticket) -> None:
        if ticket.granted:
            self._pass_on(ticket)
        else:
            self._seats.withdraw(ticket)

    def _release(self, ticket: Ticket) -> None:
        if ticket.granted_at_s is not None:
            self._forecast.held_s.observe(self._clock() - ticket.granted_at_s, units=1)
        self._pass_on(ticket)

    def _pass_on(self, ticket: Ticket) -> None:
        successor = self._seats.release(ticket, now_s=self._clock())
        if successor is not None:
            self._waiters[successor.number].wake()

    def _count(self, **events: int) -> None:
        self._never_seated = self._never_seated.plus(**events)

    async def _calibrate(self) -> None:
        deadline = Deadline.after(CALIBRATION_S, clock=self._clock)
        for number, text in enumerate(CALIBRATION_TEXTS):
            self._forecast.forget()
            request = LLMRequest(
                f"calibration-{number}",
                Chat((Message("user", text),)),
                deadline,
                priority=PriorityClass.BACKFILL,
                sampling=Sampling(max_tokens=CALIBRATION_TOKENS),
                arrival_s=self._clock(),
            )
            async with closing(self._engine.generate(request)) as stream:
                async for _ in stream:
                    pass
        self._forecast.calibrate()


def _hurries(deadline: Deadline) -> bool:
    """Whether there is a deadline to miss: neither none, nor one that has been missed."""
    return deadline.at_s != float("inf") and not deadline.expired

"""Jobs that wait and jobs that run: who gets the next place, and who is told that there is none.

Every order that comes in ends in exactly one call of ``Outcomes``. Belongs to one event loop.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pipeline.bus.base import Record
from pipeline.ingest.message import IngestedJob
from pipeline.service.admission import Prospect, Verdict, judge
from pipeline.service.lanes import LaneQueue
from pipeline.service.ledger import Claim
from schemas.deadline import Clock, Deadline
from schemas.job import Lane, VideoJob
from schemas.result import FusedResult

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Order:
    """A record, the job read from it at ``read_s``, and the right to answer it. ``begun_s``: of its analysis."""

    record: Record
    ingested: IngestedJob
    claim: Claim
    read_s: float
    alarm: asyncio.TimerHandle | None = None
    concluded: bool = False
    begun_s: float | None = None

    @property
    def job(self) -> VideoJob:
        """What is asked for."""
        return self.ingested.job

    @property
    def deadline(self) -> Deadline:
        """Until when."""
        return self.ingested.deadline


class Analyst(Protocol):
    """Gets a job's clip and understands it."""

    async def __call__(self, job: VideoJob, *, deadline: Deadline) -> FusedResult:
        """Return the result by ``deadline``. Bad clips and lateness are results, too."""
        ...

    def prospect(self) -> Prospect:
        """Return what the jobs under way with a deadline still take, and what one more would."""
        ...


class Outcomes(Protocol):
    """Takes what became of an order. None of these blocks or fails."""

    def answered(self, order: Order, result: FusedResult) -> None:
        """Publish a result."""
        ...

    def refused(self, order: Order, verdict: Verdict) -> None:
        """Publish that there is no room."""
        ...

    def expired(self, order: Order) -> None:
        """Publish that the order's time was over before its turn came."""
        ...

    def broken(self, order: Order, error: Exception) -> None:
        """Publish that analysing it raised what it must not."""
        ...


@dataclass(frozen=True, slots=True)
class Places:
    """How many jobs run at once, and of them backfill at most."""

    total: int
    backfill: int


class Dispatcher:
    """Runs orders, realtime first, then backfill, each by deadline."""

    def __init__(
        self,
        analyst: Analyst,
        outcomes: Outcomes,
        *,
        places: Places,
        least_s: float,
        still_ours: Callable[[Claim], bool],
        spare_s: Callable[[], float],
        clock: Clock,
    ) -> None:
        """``least_s``: what the cheapest answer takes; ``spare_s``: what sending one takes, from its deadline."""
        self._analyst = analyst
        self._outcomes = outcomes
        self._places = places
        self._least_s = least_s
        self._still_ours = still_ours
        self._spare_s = spare_s
        self._clock = clock
        self._queue: LaneQueue[Order] = LaneQueue()
        self._running: dict[asyncio.Task[None], Order] = {}
        self._draining = False
        self._concluded = 0
        """Realtime orders in the queue that were answered there."""

    def waiting(self, lane: Lane) -> int:
        """Orders of ``lane`` without a place. Those that have expired may still be counted for a moment."""
        return self._queue.waiting(lane)

    @property
    def running(self) -> int:
        """Orders with a place."""
        return len(self._running)

    def offer(self, order: Order) -> None:
        """Take an order in, or refuse it at once."""
        if order.deadline.expired:
            self._outcomes.expired(order)
            return
        verdict = self._judge(order)
        if not verdict.admitted:
            self._outcomes.refused(order, verdict)
            return
        job = order.job
        self._queue.push(order, lane=job.lane, deadline_s=order.deadline.at_s, priority=job.priority)
        self._set_alarm(order)
        self._fill_places()

    async def drain(self, *, timeout_s: float) -> None:
        """Finish realtime; give backfill back (its claims stay open, so that others answer it). Then nothing runs."""
        self._draining = True
        backfill = [task for task, order in self._running.items() if order.job.lane is Lane.BACKFILL]
        for task in backfill:
            task.cancel()
        async with asyncio.timeout(timeout_s):
            while self._running:
                await asyncio.wait(self._running)

    def _judge(self, order: Order) -> Verdict:
        if order.job.lane is Lane.BACKFILL or order.deadline.at_s == float("inf"):
            return Verdict(admitted=True, wait_s=0.0)
        running = sum(running.job.lane is Lane.REALTIME for running in self._running.values())
        return judge(
            self._analyst.prospect(),
            under_way=running + self._queue.waiting(Lane.REALTIME) - self._concluded,
            remaining_s=self._due(order).remaining(),
            least_s=self._least_s,
        )

    def _due(self, order: Order) -> Deadline:
        """Return when its answer must be ready, for the bus to have it by the deadline."""
        return order.deadline.reserve(self._spare_s())

    def _set_alarm(self, order: Order) -> None:
        if order.deadline.at_s != float("inf"):
            loop = asyncio.get_running_loop()
            order.alarm = loop.call_later(self._due(order).remaining(), self._too_late, order)

    def _too_late(self, order: Order) -> None:
        """Conclude an order that waits: whoever takes one out of the queue cancels its alarm."""
        order.concluded = True  # so that it is passed over then
        self._concluded += order.job.lane is Lane.REALTIME
        if self._still_ours(order.claim):
            self._outcomes.expired(order)

    def _fill_places(self) -> None:
        while (order := self._next()) is not None:
            if order.alarm is not None:
                order.alarm.cancel()
            self._concluded -= order.concluded and order.job.lane is Lane.REALTIME
            if order.concluded or not self._still_ours(order.claim):
                continue
            order.begun_s = self._clock()
            task = asyncio.create_task(self._run(order))
            self._running[task] = order
            task.add_done_callback(self._ended)

    def _next(self) -> Order | None:
        if len(self._running) >= self._places.total:
            return None
        if (order := self._queue.pop(Lane.REALTIME)) is not None:
            return order
        backfill = sum(order.job.lane is Lane.BACKFILL for order in self._running.values())
        return self._queue.pop(Lane.BACKFILL) if backfill < self._places.backfill and not self._draining else None

    async def _run(self, order: Order) -> None:
        try:
            result = await self._analyst(order.job, deadline=self._due(order))
        except Exception as error:  # a bug: the order must end all the same
            log.exception("job %s broke", order.job.job_id)
            if self._still_ours(order.claim):
                self._outcomes.broken(order, error)
            return
        if self._still_ours(order.claim):
            self._outcomes.answered(order, result)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._fill_places()

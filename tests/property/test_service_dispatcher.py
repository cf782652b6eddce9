"""Whatever comes, ends, breaks, expires or is taken away, in whatever order: every job ends exactly once."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline.service.admission import Prospect
from pipeline.service.dispatcher import Dispatcher, Order, Places
from pipeline.service.ledger import Claim
from schemas.deadline import Deadline
from schemas.job import Lane, VideoJob
from schemas.result import FusedResult
from tests.unit.service_parts import Analyst, Outcomes, job, order, settle
from tests.unit.virtual_time import VirtualLoop

SPARE_S = 0.02
LEAST_S = 0.05
seconds = st.sampled_from([0.0, 0.05, 0.3])


class DispatcherMachine(RuleBasedStateMachine):
    """Jobs of both lanes over few places, on a loop whose time passes only when a rule says so."""

    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("pipeline.service.dispatcher").setLevel(logging.CRITICAL)
        self.loop = VirtualLoop()
        self.analyst = Analyst()
        self.jumped_the_queue: list[Order] = []
        self.outcomes = Outcomes()
        self.orders: list[Order] = []
        self.void: set[Claim] = set()
        self.taken_untold: list[Order] = []

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        async def and_what_follows() -> None:
            await work
            await settle()

        self.loop.run_until_complete(and_what_follows())

    @initialize(total=st.integers(1, 4), data=st.data())
    def open(self, total: int, data: st.DataObject) -> None:
        self.places = Places(total=total, backfill=data.draw(st.integers(1, total)))
        self.dispatcher = Dispatcher(
            self,
            self.outcomes,
            places=self.places,
            least_s=LEAST_S,
            still_ours=lambda claim: claim not in self.void,
            spare_s=lambda: SPARE_S,
            clock=self.loop.time,
        )

    @rule(
        lane=st.sampled_from(Lane),
        in_s=st.sampled_from([0.0, 0.1, 0.5, 0.5, 3.0, float("inf")]),
        priority=st.integers(0, 2),
    )
    def offer(self, lane: Lane, in_s: float, priority: int) -> None:
        async def offer() -> None:
            offered = order(job(lane=lane, priority=priority), clock=self.loop.time, in_s=in_s)
            self.orders.append(offered)
            self.dispatcher.offer(offered)

        self.run(offer())

    @rule(in_s=st.sampled_from([0.1, 0.5, 3.0]))
    def offer_what_was_taken_away(self, in_s: float) -> None:
        """Its partition may go between the reading of a record and its offer."""

        async def offer() -> None:
            offered = order(job(), clock=self.loop.time, in_s=in_s)
            self.void.add(offered.claim)
            self.orders.append(offered)
            self.dispatcher.offer(offered)

        self.run(offer())

    @rule(begun=st.integers(0, 2), left_s=seconds, work_s=seconds)
    def expect(self, begun: int, left_s: float, work_s: float) -> None:
        self.analyst.expects = Prospect(cores=2, begun=begun, left_s=left_s, work_s=work_s, span_s=work_s)

    @precondition(lambda self: self.analyst.under_way)
    @rule(data=st.data(), breaks=st.sampled_from([False, False, True]))
    def end(self, data: st.DataObject, breaks: bool) -> None:
        async def end() -> None:
            job_id = data.draw(st.sampled_from(self.analyst.under_way))
            if breaks:
                self.analyst.fail(job_id, ZeroDivisionError())
            else:
                self.analyst.finish(job_id)

        self.run(end())

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.6, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @precondition(lambda self: self.orders)
    @rule(data=st.data())
    def take_away(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.orders))
        if not self.outcomes.of(gone):
            self.taken_untold.append(gone)
        self.void.add(gone.claim)

    @invariant()
    def of_what_was_taken_away_nothing_is_told(self) -> None:
        assert not any(self.outcomes.of(gone) for gone in self.taken_untold)

    async def __call__(self, job: VideoJob, *, deadline: Deadline) -> FusedResult:
        if job.lane is Lane.BACKFILL:
            self.jumped_the_queue += self._waiting(Lane.REALTIME)
        return await self.analyst(job, deadline=deadline)

    def prospect(self) -> Prospect:
        return self.analyst.expects

    @invariant()
    def no_backfill_is_begun_while_realtime_waits(self) -> None:
        assert not self.jumped_the_queue

    def _waiting(self, lane: Lane) -> list[Order]:
        begun = {asked.job_id for asked in self.analyst.begun}
        return [
            o
            for o in self.orders
            if o.job.lane is lane and o.job.job_id not in begun and not self.outcomes.of(o) and o.claim not in self.void
        ]

    def _under_way(self, lane: Lane) -> int:
        return sum(o.job.lane is lane for o in self.orders if o.job.job_id in self.analyst.under_way)

    @invariant()
    def those_in_the_queue_that_were_told_are_counted(self) -> None:
        if not self.orders:
            return
        in_queue = [place.item for place in self.dispatcher._queue._waiting[Lane.REALTIME]]
        assert self.dispatcher._concluded == sum(queued.concluded for queued in in_queue)
        assert in_queue or self.dispatcher._concluded == 0

    @invariant()
    def an_analysis_leaves_time_to_send_its_answer(self) -> None:
        at_s = {offered.job.job_id: offered.deadline.at_s for offered in self.orders}
        assert all(due.at_s == at_s[name] - SPARE_S for name, due in self.analyst.deadlines.items())

    @invariant()
    def nobody_is_told_twice(self) -> None:
        assert all(len(self.outcomes.of(offered)) <= 1 for offered in self.orders)

    @invariant()
    def places_are_kept_and_none_is_left_empty_while_somebody_may_have_it(self) -> None:
        if not self.orders:
            return
        realtime, backfill = self._under_way(Lane.REALTIME), self._under_way(Lane.BACKFILL)
        assert realtime + backfill == self.dispatcher.running <= self.places.total
        assert backfill <= self.places.backfill
        if self._waiting(Lane.REALTIME):
            assert realtime + backfill == self.places.total
        if self._waiting(Lane.BACKFILL):
            assert realtime + backfill == self.places.total or backfill == self.places.backfill

    @invariant()
    def who_waits_is_told_in_time(self) -> None:
        for offered in [*self._waiting(Lane.REALTIME), *self._waiting(Lane.BACKFILL)]:
            assert self.loop.time() <= offered.deadline.at_s - SPARE_S + 1e-6

    def teardown(self) -> None:
        while self.analyst.under_way:
            self.analyst_ends_one()
        for offered in self.orders:
            if offered.claim not in self.void:
                assert len(self.outcomes.of(offered)) == 1, f"{offered.job.job_id} was never told"
        if self.orders:
            self.run(self.dispatcher.drain(timeout_s=1))
            assert (self.dispatcher.waiting(Lane.REALTIME), self.dispatcher._concluded) == (0, 0)
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()

    def analyst_ends_one(self) -> None:
        async def end() -> None:
            self.analyst.finish(self.analyst.under_way[0])

        self.run(end())


TestDispatcher = DispatcherMachine.TestCase
TestDispatcher.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

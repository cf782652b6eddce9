"""Who gets the next place, and who is told that there is none. In virtual time."""

import asyncio
import logging

import pytest

from pipeline.service.admission import Prospect
from pipeline.service.dispatcher import Dispatcher, Order, Places
from pipeline.service.ledger import Claim
from schemas.job import Lane
from tests.unit.service_parts import Analyst, Outcomes, job, order, settle
from tests.unit.virtual_time import in_virtual_time, now_s

SPARE_S = 0.02
EACH_S = 1.0
"""What a job takes in a house that can be full."""


class House:
    """A dispatcher with everything around it that a test looks at."""

    def __init__(self, *, total: int = 2, backfill: int = 1, least_s: float = 0.0) -> None:
        self.analyst = Analyst()
        self.outcomes = Outcomes()
        self.void: set[Claim] = set()
        self.spare_s = SPARE_S
        self.dispatcher = Dispatcher(
            self.analyst,
            self.outcomes,
            places=Places(total=total, backfill=backfill),
            least_s=least_s,
            still_ours=lambda claim: claim not in self.void,
            spare_s=lambda: self.spare_s,
            clock=now_s,
        )

    async def offer(self, name: str, lane: Lane = Lane.REALTIME, *, in_s: float = float("inf"), **more: int) -> Order:
        offered = order(job(name, lane=lane, **more), clock=now_s, in_s=in_s)
        self.dispatcher.offer(offered)
        await settle()
        return offered

    def expect(self, *, begun: int = 0, left_s: float = 0.0, each_s: float = EACH_S) -> None:
        """Let jobs take ``each_s`` on the one core, of ``begun`` ones what is left."""
        self.analyst.expects = Prospect(cores=1, begun=begun, left_s=left_s, work_s=each_s, span_s=each_s)

    async def jobs_before_one_more(self) -> float:
        """Knock at the door without enough time, and hear how many jobs are before it."""
        self.expect()
        knocks = await self.offer("knocks", in_s=EACH_S / 2)
        assert self.outcomes.told.pop() == ("refused", knocks)
        return self.outcomes.verdicts.pop().wait_s / EACH_S

    async def finish(self, name: str) -> None:
        self.analyst.finish(name)
        await settle()

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(kind, about.job.job_id) for kind, about in self.outcomes.told]

    async def finish_all(self) -> None:
        while self.analyst.under_way:
            await self.finish(self.analyst.under_way[0])


@in_virtual_time
async def test_a_job_gets_a_place_at_once_and_its_result_is_passed_on() -> None:
    house = House()
    await house.offer("a")
    assert house.analyst.under_way == ["a"]
    assert house.dispatcher.running == 1
    await house.finish("a")
    assert house.told == [("answered", "a")]
    assert house.dispatcher.running == 0


@in_virtual_time
async def test_no_more_jobs_run_than_there_are_places_and_the_next_comes_when_one_ends() -> None:
    house = House(total=2)
    for name in ("a", "b", "c"):
        await house.offer(name)
    assert house.analyst.under_way == ["a", "b"]
    assert house.dispatcher.waiting(Lane.REALTIME) == 1
    await house.finish("a")
    assert house.analyst.under_way == ["b", "c"]
    await house.finish_all()


@in_virtual_time
async def test_realtime_that_came_last_goes_before_backfill_that_waits() -> None:
    house = House(total=1)
    await house.offer("running")
    await house.offer("backfill", Lane.BACKFILL)
    await house.offer("realtime")
    await house.finish("running")
    assert house.analyst.under_way == ["realtime"]
    await house.finish_all()
    assert [about for _, about in house.told] == ["running", "realtime", "backfill"]


@in_virtual_time
async def test_the_earliest_deadline_goes_first_then_the_smaller_priority() -> None:
    house = House(total=1)
    await house.offer("running")
    await house.offer("late", in_s=9.0)
    await house.offer("unimportant", in_s=5.0, priority=9)
    await house.offer("important", in_s=5.0, priority=1)
    await house.finish_all()
    assert [asked.job_id for asked in house.analyst.begun] == ["running", "important", "unimportant", "late"]


@in_virtual_time
async def test_backfill_leaves_a_place_for_realtime() -> None:
    house = House(total=3, backfill=1)
    for name in ("a", "b", "c"):
        await house.offer(name, Lane.BACKFILL)
    assert house.analyst.under_way == ["a"]
    await house.offer("realtime")
    assert house.analyst.under_way == ["a", "realtime"]
    await house.finish_all()


@in_virtual_time
async def test_a_job_that_is_late_when_it_comes_is_told_so_and_not_begun() -> None:
    house = House()
    await house.offer("late", in_s=0.0)
    assert house.told == [("expired", "late")]
    assert house.analyst.begun == []


@in_virtual_time
async def test_a_job_that_would_not_be_whole_in_its_turn_is_refused_at_once_and_told_when_to_come_again() -> None:
    house = House(total=1, least_s=0.1)
    house.expect()
    await house.offer("running", in_s=1.0)
    await house.offer("too many", in_s=1.0)
    assert house.told == [("refused", "too many")]
    [verdict] = house.outcomes.verdicts
    assert verdict.wait_s == pytest.approx(EACH_S)
    assert verdict.retry_after_s == pytest.approx(EACH_S + EACH_S - (1.0 - SPARE_S))
    assert house.dispatcher.waiting(Lane.REALTIME) == 0
    await house.finish_all()


@in_virtual_time
async def test_a_job_finds_room_when_little_is_left_of_the_one_under_way() -> None:
    house = House(total=1, least_s=0.1)
    house.expect()
    await house.offer("running", in_s=9.0)
    house.expect(begun=1, left_s=0.1)
    await house.offer("next", in_s=EACH_S + 0.1 + SPARE_S + 0.001)
    assert house.told == []
    await house.offer("after", in_s=EACH_S + 0.1 + SPARE_S + 0.001)
    assert house.told == [("refused", "after")]
    await house.finish_all()


@in_virtual_time
async def test_the_door_counts_realtime_that_runs_and_realtime_that_waits_and_no_backfill() -> None:
    house = House(total=2, backfill=1)
    for name in ("a", "b"):
        await house.offer(f"backfill {name}", Lane.BACKFILL, in_s=9.0)
    for name in ("runs", "waits", "waits too"):
        await house.offer(name, in_s=9.0)
    assert house.dispatcher.running == 2
    assert await house.jobs_before_one_more() == 3
    await house.finish_all()


@in_virtual_time
async def test_a_job_that_was_told_while_it_waited_is_in_nobodys_way() -> None:
    house = House(total=1)
    await house.offer("running", in_s=9.0)
    for name in ("a", "b"):
        await house.offer(name, in_s=0.5)
    assert await house.jobs_before_one_more() == 3
    await asyncio.sleep(0.5)
    assert house.told == [("expired", "a"), ("expired", "b")]
    assert await house.jobs_before_one_more() == 1
    await house.finish("running")
    await house.offer("next", in_s=9.0)
    assert await house.jobs_before_one_more() == 1
    await house.finish_all()


@in_virtual_time
@pytest.mark.parametrize("when", ["before it came", "while it waited", "after it was told"])
async def test_a_job_whose_partition_goes_is_counted_once_and_then_no_more(when: str) -> None:
    house = House(total=1)
    if when != "before it came":
        await house.offer("running", in_s=9.0)
    lost = order(job("lost"), clock=now_s, in_s=0.5)
    house.void |= {lost.claim} if when == "before it came" else set()
    house.dispatcher.offer(lost)
    house.void |= {lost.claim} if when == "while it waited" else set()
    await asyncio.sleep(1)
    house.void |= {lost.claim} if when == "after it was told" else set()
    await house.finish_all()
    for name in ("a", "b"):
        await house.offer(name, in_s=9.0)
    assert await house.jobs_before_one_more() == 2
    assert house.outcomes.of(lost) == (["expired"] if when == "after it was told" else [])
    await house.finish_all()


@in_virtual_time
@pytest.mark.parametrize(("more_s", "welcome"), [(0.001, True), (-0.001, False)])
async def test_the_least_that_an_answer_takes_must_be_left_when_it_has_to_be_sent(more_s: float, welcome: bool) -> None:
    house = House(least_s=0.1)
    await house.offer("a", in_s=0.1 + SPARE_S + more_s)
    assert house.told == ([] if welcome else [("refused", "a")])
    await house.finish_all()


@in_virtual_time
async def test_backfill_and_jobs_without_a_deadline_are_never_refused() -> None:
    house = House(total=1, least_s=0.1)
    house.expect(each_s=10.0)
    await house.offer("running")
    await house.offer("patient")
    await house.offer("backfill", Lane.BACKFILL, in_s=1.0)
    assert house.told == []
    await house.finish_all()


@in_virtual_time
async def test_a_job_that_still_waits_is_told_before_its_deadline_and_not_begun_after() -> None:
    house = House(total=1)
    await house.offer("running")
    waiting = await house.offer("waiting", in_s=0.5)
    await asyncio.sleep(0.5 - SPARE_S - 0.001)
    assert house.told == []
    await asyncio.sleep(0.002)
    assert house.told == [("expired", "waiting")]
    assert not waiting.deadline.expired
    await house.finish_all()
    assert [asked.job_id for asked in house.analyst.begun] == ["running"]


@in_virtual_time
async def test_an_analysis_is_to_be_ready_early_enough_for_its_answer_to_be_sent() -> None:
    house = House(total=1)
    at_once = await house.offer("at once", in_s=5.0)
    waited = await house.offer("waited", in_s=9.0)
    await house.offer("patient")
    house.spare_s = 0.07  # sending has become slower meanwhile
    await house.finish_all()
    assert house.analyst.deadlines["at once"].at_s == pytest.approx(at_once.deadline.at_s - SPARE_S)
    assert house.analyst.deadlines["waited"].at_s == pytest.approx(waited.deadline.at_s - 0.07)
    assert house.analyst.deadlines["patient"].at_s == float("inf")


@in_virtual_time
async def test_a_job_that_is_left_no_time_but_for_sending_is_told_at_once() -> None:
    house = House(total=1, backfill=1)
    await house.offer("running")
    await house.offer("backfill", Lane.BACKFILL, in_s=SPARE_S / 2)
    assert now_s() == 0
    assert house.told == [("expired", "backfill")]
    await house.finish_all()


@in_virtual_time
async def test_a_job_that_has_its_place_is_left_to_its_analyst_when_the_deadline_comes() -> None:
    house = House()
    await house.offer("a", in_s=0.5)
    await asyncio.sleep(1.0)
    assert house.told == []
    await house.finish("a")
    assert house.told == [("answered", "a")]


@in_virtual_time
async def test_an_analyst_that_raises_gives_a_broken_job_and_a_free_place(caplog: pytest.LogCaptureFixture) -> None:
    house = House(total=1)
    await house.offer("a")
    await house.offer("b")
    with caplog.at_level(logging.CRITICAL, "pipeline.service.dispatcher"):
        house.analyst.fail("a", ZeroDivisionError())
        await settle()
    assert house.told == [("broken", "a")]
    assert house.analyst.under_way == ["b"]
    await house.finish_all()


@in_virtual_time
async def test_a_job_whose_partition_went_is_neither_begun_nor_answered() -> None:
    house = House(total=1)
    running = await house.offer("running")
    waiting = await house.offer("waiting", in_s=9.0)
    await house.offer("ours")
    house.void |= {running.claim, waiting.claim}
    await house.finish("running")
    assert house.analyst.under_way == ["ours"]
    await house.finish("ours")
    await asyncio.sleep(20)
    assert house.told == [("answered", "ours")]


@in_virtual_time
async def test_draining_finishes_realtime_and_gives_backfill_back() -> None:
    house = House(total=2)
    await house.offer("backfill", Lane.BACKFILL)
    await house.offer("a")
    await house.offer("b")
    await house.offer("more backfill", Lane.BACKFILL)
    draining = asyncio.create_task(house.dispatcher.drain(timeout_s=5))
    await settle()
    assert house.analyst.under_way == ["a", "b"]
    await house.finish_all()
    await draining
    assert house.told == [("answered", "a"), ("answered", "b")]
    assert (house.dispatcher.running, house.dispatcher.waiting(Lane.BACKFILL)) == (0, 1)


@in_virtual_time
async def test_draining_an_idle_house_takes_no_time() -> None:
    house = House()
    await house.dispatcher.drain(timeout_s=5)
    assert now_s() == 0


@in_virtual_time
async def test_draining_gives_up_on_an_answer_that_does_not_come() -> None:
    house = House()
    await house.offer("a")
    with pytest.raises(TimeoutError):
        await house.dispatcher.drain(timeout_s=5)
    assert now_s() == pytest.approx(5)
    await house.finish("a")


@in_virtual_time
async def test_a_job_that_is_cancelled_leaves_nothing() -> None:
    house = House(total=1, backfill=1)
    cancelled = await house.offer("backfill", Lane.BACKFILL)
    await house.dispatcher.drain(timeout_s=5)
    assert house.analyst.under_way == []
    assert house.outcomes.of(cancelled) == []
    assert house.dispatcher.running == 0

"""Who gets the next place, and who is told that there is none. In virtual time."""

import asyncio
import logging

import pytest

from pipeline.service.admission import DoorPolicy
from pipeline.service.dispatcher import Dispatcher, Order, Places
from pipeline.service.ledger import Claim
from schemas.job import Lane
from tests.unit.service_parts import Analyst, Outcomes, job, order, settle
from tests.unit.virtual_time import in_virtual_time, now_s

SPARE_S = 0.02


class House:
    """A dispatcher with everything around it that a test looks at."""

    def __init__(self, *, total: int = 2, backfill: int = 1, least_s: float = 0.0) -> None:
        self.analyst = Analyst()
        self.outcomes = Outcomes()
        self.void: set[Claim] = set()
        self.door = DoorPolicy(places=total, least_s=least_s)
        self.dispatcher = Dispatcher(
            self.analyst,
            self.outcomes,
            places=Places(total=total, backfill=backfill),
            door=self.door,
            still_ours=lambda claim: claim not in self.void,
            spare_s=SPARE_S,
            clock=now_s,
        )

    async def offer(self, name: str, lane: Lane = Lane.REALTIME, *, in_s: float = float("inf"), **more: int) -> Order:
        offered = order(job(name, lane=lane, **more), clock=now_s, in_s=in_s)
        self.dispatcher.offer(offered)
        await settle()
        return offered

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
async def test_a_job_that_would_not_get_its_turn_is_refused_at_once() -> None:
    house = House(total=1, least_s=0.1)
    house.door.learn(10.0)
    await house.offer("running", in_s=1.0)
    await house.offer("too many", in_s=1.0)
    assert house.told == [("refused", "too many")]
    assert house.dispatcher.waiting(Lane.REALTIME) == 0
    await house.finish_all()


@in_virtual_time
async def test_backfill_and_jobs_without_a_deadline_are_never_refused() -> None:
    house = House(total=1, least_s=0.1)
    house.door.learn(10.0)
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
async def test_the_door_learns_from_realtime_alone_and_from_its_place_on() -> None:
    house = House(total=1)
    before_s = house.door.cost_s
    await house.offer("backfill", Lane.BACKFILL)
    await asyncio.sleep(5)
    await house.offer("waited")
    await asyncio.sleep(5)
    await house.finish("backfill")
    assert house.door.cost_s == before_s
    await asyncio.sleep(before_s)
    await house.finish("waited")
    assert house.door.cost_s == pytest.approx(before_s)


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

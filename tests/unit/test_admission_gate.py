"""The gate seats requests in order, turns the late away, and loses no seat whatever becomes of them."""

import asyncio
from contextlib import aclosing

import pytest

from llm_engine.admission.forecast import Forecast
from llm_engine.admission.gate import CALIBRATION_TOKENS, SeatGate
from llm_engine.admission.meter import Meter
from llm_engine.admission.seats import SeatQueue
from llm_engine.base import PriorityClass, Prompt, Sampling
from schemas.errors import DeadlineExceeded, Overloaded, StageError
from tests.unit.scripted_engine import LABELS, TEXT, ScriptedEngine, asking, last, never, outputs, within
from tests.unit.virtual_time import in_virtual_time, now_s

REALTIME, INTERACTIVE, BACKFILL = PriorityClass
MEAL = Prompt("meals", "Which meal?", "We had soup.")


class House:
    """One engine behind a gate."""

    def __init__(self, *, seats: int = 1, reserved: int = 0) -> None:
        self.engine = ScriptedEngine()
        self.forecast = Forecast(clock=now_s)
        self.queue = SeatQueue(seats=seats, reserved=reserved, ageing_s=1e9)
        meter = Meter(self.engine, forecast=self.forecast, clock=now_s)
        self.gate = SeatGate(meter, self.queue, forecast=self.forecast, clock=now_s)

    def start(self, request_id: str, **kwargs) -> asyncio.Task:
        return asyncio.create_task(outputs(self.gate, asking(request_id=request_id, **kwargs)))

    @property
    def order(self) -> list[str]:
        return [request.request_id for request in self.engine.requests]


@in_virtual_time
async def test_no_more_run_than_there_are_seats():
    house = House(seats=3)
    done = await asyncio.gather(*(house.start(str(i)) for i in range(10)))
    assert house.engine.peak == 3
    assert all(stream[-1].text == TEXT for stream in done)
    assert house.queue.held == 0


@in_virtual_time
async def test_realtime_goes_before_backfill_that_came_first():
    house = House()
    tasks = [house.start("first")]
    await asyncio.sleep(0)
    tasks += [house.start("backfill", priority=BACKFILL), house.start("realtime")]
    await asyncio.gather(*tasks)
    assert house.order == ["first", "realtime", "backfill"]


@in_virtual_time
async def test_a_house_full_of_backfill_does_not_hold_up_realtime():
    house = House(seats=2, reserved=1)
    backfill = [house.start(f"b{i}", priority=BACKFILL) for i in range(8)]
    await asyncio.sleep(0)
    urgent = house.start("urgent")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert house.order == ["b0", "urgent"]
    await asyncio.gather(urgent, *backfill)


@in_virtual_time
async def test_who_waits_past_the_deadline_ends_with_it():
    house = House()
    holder = house.start("holder")
    await asyncio.sleep(0)
    late = await last(house.gate, asking(request_id="late", deadline=within(0.02)))
    assert (late.text, late.finish_reason) == ("", "deadline")
    assert now_s() == pytest.approx(0.02)
    await holder
    assert house.order == ["holder"]
    assert house.gate.stats().expired == 1
    assert house.queue.waiting == house.queue.held == 0


@in_virtual_time
async def test_a_score_takes_a_seat_too():
    house = House()
    scores = [asyncio.create_task(house.gate.score(MEAL, LABELS, deadline=never())) for _ in range(3)]
    await asyncio.gather(*scores)
    assert house.engine.peak == 1
    assert house.queue.held == 0


@in_virtual_time
async def test_a_score_that_waits_past_the_deadline_is_an_error():
    house = House()
    holder = house.start("holder")
    await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded):
        await house.gate.score(MEAL, LABELS, deadline=within(0.02))
    await holder


@in_virtual_time
async def test_who_is_aborted_while_waiting_never_reaches_the_engine():
    house = House()
    holder, waiter = house.start("holder"), house.start("waiter")
    await asyncio.sleep(0)
    await house.gate.abort("waiter")
    assert [(output.text, output.finish_reason) for output in await waiter] == [("", "abort")]
    await holder
    assert house.order == ["holder"]
    assert house.gate.stats().waiting == 0


@in_virtual_time
async def test_an_abort_in_the_instant_of_the_grant_counts():
    house = House()
    holder, waiter, third = house.start("holder"), house.start("waiter"), house.start("third")
    await asyncio.sleep(0)
    await house.gate.abort("holder")
    while not house.engine.ended:
        await asyncio.sleep(0.001)
    await house.gate.abort("waiter")
    assert (await waiter)[-1].finish_reason == "abort"
    assert (await third)[-1].text == TEXT
    await holder


@in_virtual_time
async def test_a_cancelled_waiter_leaves_no_trace():
    house = House()
    holder, waiter, third = house.start("holder"), house.start("waiter"), house.start("third")
    await asyncio.sleep(0)
    waiter.cancel()
    assert (await third)[-1].text == TEXT
    assert holder.done()
    assert waiter.cancelled()
    assert house.queue.held == house.queue.waiting == 0


@in_virtual_time
async def test_one_cancelled_in_the_instant_of_the_grant_passes_the_seat_on():
    house = House()
    async with aclosing(house.gate.generate(asking(request_id="holder"))) as stream:
        await anext(stream)
        waiter, third = house.start("waiter"), house.start("third")
        await asyncio.sleep(0)
    waiter.cancel()  # granted, but not yet awake
    assert (await third)[-1].text == TEXT
    assert house.order == ["holder", "third"]
    assert house.queue.held == 0


@in_virtual_time
async def test_a_stream_closed_early_gives_its_seat_back():
    house = House()
    async with aclosing(house.gate.generate(asking())) as stream:
        await anext(stream)
        assert house.queue.held == 1
    assert house.queue.held == 0
    assert house.engine.running == 0


@in_virtual_time
async def test_a_stream_dropped_half_read_gives_its_seat_back():
    house = House()
    async for _ in house.gate.generate(asking()):
        break
    await asyncio.sleep(0.001)
    assert house.queue.held == 0


@in_virtual_time
async def test_an_engine_that_fails_gives_its_seat_back():
    house = House()
    house.engine.fails_after = 1
    with pytest.raises(StageError, match="ENGINE_FAILED"):
        await last(house.gate, asking())
    with pytest.raises(StageError, match="ENGINE_FAILED"):
        await house.gate.score(MEAL, LABELS, deadline=never())
    assert house.queue.held == 0


@in_virtual_time
async def test_a_gate_that_knows_nothing_refuses_nobody():
    house = House()
    stream = await outputs(house.gate, asking(deadline=within(1e-6)))
    assert stream[0].finish_reason in (None, "deadline")
    assert house.gate.stats().rejected == 0


@in_virtual_time
async def test_who_would_be_late_is_refused_at_once():
    house = House()
    await last(house.gate, asking())
    began_s = now_s()
    with pytest.raises(Overloaded) as raised:
        await last(house.gate, asking(deadline=within(0.02)))
    assert now_s() == began_s
    assert 0 < raised.value.retry_after_s < 0.1
    assert house.gate.stats().rejected == 1
    assert house.gate.stats().requests == 2
    assert len(house.order) == 1


@in_virtual_time
async def test_who_has_time_is_let_in_though_others_are_refused():
    house = House()
    await last(house.gate, asking())
    assert (await last(house.gate, asking(deadline=within(0.5)))).text == TEXT


@in_virtual_time
async def test_the_wait_for_a_seat_is_part_of_the_forecast():
    house = House()
    await last(house.gate, asking())
    crowd = [house.start(str(i)) for i in range(10)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await last(house.gate, asking(deadline=within(0.2), priority=INTERACTIVE))
    await asyncio.gather(*crowd)
    assert (await last(house.gate, asking(deadline=within(0.2), priority=INTERACTIVE))).text == TEXT


@in_virtual_time
async def test_backfill_that_waits_does_not_count_for_realtime():
    house = House()
    await last(house.gate, asking())
    crowd = [house.start(str(i), priority=BACKFILL) for i in range(10)]
    await asyncio.sleep(0)
    assert (await last(house.gate, asking(deadline=within(0.2)))).text == TEXT
    await asyncio.gather(*crowd)


@in_virtual_time
async def test_a_score_that_would_be_late_is_refused():
    house = House()
    await house.gate.score(MEAL, LABELS, deadline=never())
    with pytest.raises(Overloaded):
        await house.gate.score(MEAL, LABELS, deadline=within(0.005))
    assert house.engine.scored == 1


@in_virtual_time
async def test_start_up_measures_what_the_engine_costs():
    house = House()
    await house.gate.warm(LABELS)
    assert house.engine.warmed == [("meals",)]
    assert [request.sampling for request in house.engine.requests] == [Sampling(CALIBRATION_TOKENS)] * 2
    await asyncio.sleep(3600)
    assert house.forecast.prefill_s.value > 0
    assert house.forecast.decode_s.value > 0


@in_virtual_time
async def test_an_engine_that_cannot_chat_is_warm_all_the_same():
    house = House()
    house.engine.cannot_chat = True
    await house.gate.warm()
    assert house.forecast.prefill_s.value == 0


@in_virtual_time
async def test_reading_ahead_never_waits_for_a_seat():
    house = House(seats=2, reserved=1)
    await house.gate.prefetch(MEAL, deadline=never())
    assert house.engine.prefetched == [MEAL]
    backfill = house.start("b", priority=BACKFILL)
    await asyncio.sleep(0)
    await house.gate.prefetch(MEAL, deadline=never())
    assert len(house.engine.prefetched) == 1
    await backfill


@in_virtual_time
async def test_closing_sends_away_who_waits():
    house = House()
    holder, waiter = house.start("holder"), house.start("waiter")
    score = asyncio.create_task(house.gate.score(MEAL, LABELS, deadline=never()))
    await asyncio.sleep(0)
    await house.gate.close()
    assert (await waiter)[-1].finish_reason == "abort"
    with pytest.raises(StageError, match="ENGINE_FAILED"):
        await score
    assert house.engine.closed == 1
    await holder

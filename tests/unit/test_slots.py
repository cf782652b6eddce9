"""CPU slots: who goes first, and what happens at a deadline."""

import asyncio
import threading

import pytest

from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots, NotBegun
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from tests.unit.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def one_slot(clock):
    slots = CpuSlots(1, clock=clock)
    yield slots
    slots.close()


@pytest.fixture
def two_slots(clock):
    slots = CpuSlots(2, clock=clock, for_patient=1)
    yield slots
    slots.close()


async def order_of_service(slots: CpuSlots, requests: list[tuple[str, Rank, Deadline]]) -> list[str]:
    """Block the only slot, queue all requests, then let them go and see who was served when."""
    served: list[str] = []
    gate = threading.Event()
    blocker = asyncio.create_task(slots.run(gate.wait, rank=Rank.CHAIN, deadline=Deadline.never()))
    await asyncio.sleep(0)
    waiting = [
        asyncio.create_task(slots.run(lambda name=name: served.append(name), rank=rank, deadline=deadline))
        for name, rank, deadline in requests
    ]
    await asyncio.sleep(0.01)
    gate.set()
    await asyncio.gather(blocker, *waiting)
    return served


def soon(clock: ManualClock) -> Deadline:
    return Deadline.after(5, clock=clock)


def later(clock: ManualClock) -> Deadline:
    return Deadline.after(9, clock=clock)


async def test_within_a_clip_the_longer_chain_goes_first_whatever_came_earlier(one_slot, clock):
    ranks = [Rank.EXTRA, Rank.MORE, Rank.LIGHT, Rank.HEAVY, Rank.DECODE, Rank.CHAIN, Rank.FIRST]
    order = await order_of_service(one_slot, [(rank.name, rank, soon(clock)) for rank in ranks])
    assert order == ["FIRST", "CHAIN", "DECODE", "HEAVY", "LIGHT", "MORE", "EXTRA"]


async def test_of_what_answers_need_the_earlier_deadline_goes_first_whatever_its_rank(one_slot, clock):
    requests = [
        ("never", Rank.CHAIN, Deadline.never()),
        ("late", Rank.CHAIN, later(clock)),
        ("soon", Rank.LIGHT, soon(clock)),
    ]
    assert await order_of_service(one_slot, requests) == ["soon", "late", "never"]


async def test_what_one_answer_needs_goes_before_what_makes_an_earlier_one_better(one_slot, clock):
    requests = [
        ("extra", Rank.EXTRA, soon(clock)),
        ("better", Rank.MORE, soon(clock)),
        ("needed", Rank.LIGHT, later(clock)),
    ]
    assert await order_of_service(one_slot, requests) == ["needed", "better", "extra"]


async def test_what_no_plan_can_be_made_without_goes_before_what_is_due_earlier(one_slot, clock):
    requests = [("chain", Rank.CHAIN, soon(clock)), ("probe", Rank.FIRST, later(clock))]
    assert await order_of_service(one_slot, requests) == ["probe", "chain"]


async def test_backfill_waits_for_all_that_has_a_deadline(one_slot, clock):
    requests = [("backfill", Rank.FIRST, Deadline.never()), ("better", Rank.MORE, later(clock))]
    assert await order_of_service(one_slot, requests) == ["better", "backfill"]


async def test_the_deadline_frees_the_caller_and_the_slot_stays_taken_until_the_thread_ends(one_slot):
    gate = threading.Event()
    with pytest.raises(DeadlineExceeded):
        await one_slot.run(gate.wait, rank=Rank.CHAIN, deadline=Deadline.after(0.02))
    assert one_slot.stats().free == 0
    assert one_slot.stats().wasted == 1
    gate.set()
    await one_slot.run(lambda: None, rank=Rank.CHAIN, deadline=Deadline.never())
    await asyncio.sleep(0)
    assert one_slot.stats().free == 1


async def test_what_does_not_begin_in_time_is_not_begun_although_the_deadline_is_far(one_slot):
    gate, ran = threading.Event(), threading.Event()
    blocker = asyncio.create_task(one_slot.run(gate.wait, rank=Rank.CHAIN, deadline=Deadline.never()))
    await asyncio.sleep(0)
    with pytest.raises(NotBegun):
        await one_slot.run(ran.set, rank=Rank.CHAIN, deadline=Deadline.after(60), start_by=Deadline.after(0.01))
    gate.set()
    await blocker
    await one_slot.run(lambda: None, rank=Rank.CHAIN, deadline=Deadline.never())
    await asyncio.sleep(0)
    assert not ran.is_set()
    assert (one_slot.stats().free, one_slot.stats().waiting, one_slot.stats().wasted) == (1, 0, 0)


async def test_what_could_not_begin_in_time_is_refused_although_a_slot_is_free(one_slot, clock):
    too_late = Deadline.after(-1, clock=clock)
    with pytest.raises(NotBegun):
        await one_slot.run(lambda: None, rank=Rank.CHAIN, deadline=soon(clock), start_by=too_late)
    assert (one_slot.stats().free, one_slot.stats().done) == (1, 0)


async def test_what_began_in_time_may_run_until_its_deadline(one_slot):
    gate = threading.Event()
    asyncio.get_running_loop().call_later(0.05, gate.set)
    answer, _ = await one_slot.run(
        gate.wait, rank=Rank.CHAIN, deadline=Deadline.after(60), start_by=Deadline.after(0.01)
    )
    assert answer


async def test_what_began_and_did_not_end_is_late_and_not_unbegun(one_slot):
    gate = threading.Event()
    with pytest.raises(DeadlineExceeded) as late:
        await one_slot.run(gate.wait, rank=Rank.CHAIN, deadline=Deadline.after(0.02))
    gate.set()
    assert not isinstance(late.value, NotBegun)


async def test_nobody_without_a_deadline_begins_while_a_job_with_one_is_there(two_slots, clock):
    with two_slots.hurried(soon(clock)):
        patient = asyncio.create_task(two_slots.run(lambda: "done", rank=Rank.FIRST, deadline=Deadline.never()))
        await two_slots.run(lambda: None, rank=Rank.MORE, deadline=Deadline.after(60))
        await asyncio.sleep(0.01)
        assert not patient.done()
        assert (two_slots.stats().free, two_slots.stats().waiting) == (2, 1)
    answer, _ = await patient
    assert answer == "done"


async def test_they_begin_when_the_last_such_job_has_ended_even_by_an_error(two_slots, clock):
    async def patient() -> None:
        async with two_slots.hold(rank=Rank.DECODE, deadline=Deadline.never()):
            pass

    with two_slots.hurried(later(clock)):
        with pytest.raises(RuntimeError, match="boom"), two_slots.hurried(soon(clock)):
            waiting = asyncio.create_task(patient())
            await asyncio.sleep(0)
            raise RuntimeError("boom")
        await asyncio.sleep(0.01)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 5)


async def test_a_job_without_a_deadline_holds_nobody_back(two_slots):
    with two_slots.hurried(Deadline.never()):
        await asyncio.wait_for(two_slots.run(lambda: None, rank=Rank.LIGHT, deadline=Deadline.never()), 5)


async def test_steps_of_the_language_model_are_not_held_back(two_slots, clock):
    with two_slots.hurried(soon(clock)):
        await asyncio.wait_for(two_slots.run(lambda: None, rank=Rank.EXTRA, deadline=Deadline.never()), 5)


async def test_whoever_comes_with_a_deadline_finds_a_slot_however_many_come_without(two_slots):
    gate = threading.Event()
    patient = [
        asyncio.create_task(two_slots.run(gate.wait, rank=Rank.FIRST, deadline=Deadline.never())) for _ in range(3)
    ]
    await asyncio.sleep(0.01)
    assert (two_slots.stats().free, two_slots.stats().waiting) == (1, 2)
    with two_slots.hurried(Deadline.after(60)):
        await asyncio.wait_for(two_slots.run(lambda: None, rank=Rank.MORE, deadline=Deadline.after(60)), 5)
    gate.set()
    await asyncio.gather(*patient)


async def test_who_gives_up_waiting_takes_no_slot(one_slot):
    gate = threading.Event()
    blocker = asyncio.create_task(one_slot.run(gate.wait, rank=Rank.CHAIN, deadline=Deadline.never()))
    await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded):
        await one_slot.run(lambda: None, rank=Rank.CHAIN, deadline=Deadline.after(0.01))
    cancelled = asyncio.create_task(one_slot.run(lambda: None, rank=Rank.CHAIN, deadline=Deadline.never()))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    gate.set()
    await blocker
    await asyncio.sleep(0)
    assert one_slot.stats().free == 1


async def test_an_expired_deadline_is_refused_before_it_takes_a_slot(one_slot, clock):
    with pytest.raises(NotBegun):
        await one_slot.run(lambda: None, rank=Rank.CHAIN, deadline=Deadline.after(-1, clock=clock))
    assert one_slot.stats().free == 1


async def test_a_held_slot_comes_back_even_after_an_error(one_slot):
    with pytest.raises(RuntimeError, match="boom"):
        async with one_slot.hold(rank=Rank.DECODE, deadline=Deadline.never()):
            assert one_slot.stats().free == 0
            raise RuntimeError("boom")
    assert one_slot.stats().free == 1


async def test_the_error_of_a_unit_reaches_its_caller(one_slot):
    def broken() -> None:
        raise ValueError("bad weights")

    with pytest.raises(ValueError, match="bad weights"):
        await one_slot.run(broken, rank=Rank.CHAIN, deadline=Deadline.never())
    await asyncio.sleep(0)
    assert one_slot.stats().free == 1

"""CPU slots: who goes first, and what happens at a deadline."""

import asyncio
import threading

import pytest

from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def one_slot(clock):
    slots = CpuSlots(1, clock=clock)
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


async def test_a_lower_rank_goes_first_whatever_came_earlier(one_slot):
    never = Deadline.never()
    requests = [("light", Rank.LIGHT, never), ("heavy", Rank.HEAVY, never), ("chain", Rank.CHAIN, never)]
    assert await order_of_service(one_slot, requests) == ["chain", "heavy", "light"]


async def test_within_a_rank_the_earlier_deadline_goes_first(one_slot, clock):
    requests = [
        ("late", Rank.LIGHT, Deadline.after(9, clock=clock)),
        ("soon", Rank.LIGHT, Deadline.after(5, clock=clock)),
        ("never", Rank.LIGHT, Deadline.never()),
    ]
    assert await order_of_service(one_slot, requests) == ["soon", "late", "never"]


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
    with pytest.raises(DeadlineExceeded):
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

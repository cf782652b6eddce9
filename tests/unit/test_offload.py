"""The text engine's calls on CPU slots."""

import asyncio
import threading
import time

import pytest

from pipeline.latency import LatencyBook
from pipeline.offload import SlotOffload
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded


@pytest.fixture
def book() -> LatencyBook:
    return LatencyBook({"text": 5.0})


@pytest.fixture
def slots():
    slots = CpuSlots(1, clock=time.monotonic)
    yield slots
    slots.close()


async def test_the_answer_comes_back_and_its_cost_is_booked(slots, book):
    assert await SlotOffload(slots, book, key="text", rank=Rank.CHAIN)(lambda: 42, deadline=Deadline.never()) == 42
    assert book.rate_ms("text") != 5.0


async def test_a_call_that_came_too_late_is_booked_too(slots, book):
    gate = threading.Event()
    with pytest.raises(DeadlineExceeded):
        await SlotOffload(slots, book, key="text", rank=Rank.CHAIN)(gate.wait, deadline=Deadline.after(0.05))
    gate.set()
    while not slots.stats().free:
        await asyncio.sleep(0.005)
    assert book.rate_ms("text") >= 50

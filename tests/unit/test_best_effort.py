"""Questions to an engine that may hang, be late, be full or be broken."""

import asyncio
import logging

import pytest

from llm_engine.best_effort import best_effort
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, MediaError, Overloaded, StageError

SOON_S = 0.02


class HangingEngine:
    """Never answers; notes whether it was told to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = False

    async def answer(self) -> str:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "never"


async def says(answer: str, *, after_s: float = 0.0) -> str:
    await asyncio.sleep(after_s)
    return answer


async def fails(error: Exception) -> str:
    raise error


async def test_an_answer_in_time_is_the_answer():
    assert await best_effort(says("rice"), deadline=Deadline.after(60)) == "rice"


async def test_an_engine_that_hangs_costs_the_answer_and_is_cancelled_at_the_deadline():
    engine = HangingEngine()
    assert await asyncio.wait_for(best_effort(engine.answer(), deadline=Deadline.after(SOON_S)), 5) is None
    assert engine.cancelled


async def test_past_the_deadline_nothing_is_waited_for():
    engine = HangingEngine()
    assert await asyncio.wait_for(best_effort(engine.answer(), deadline=Deadline.after(-1)), 5) is None


async def test_without_a_deadline_there_is_no_hurry():
    assert await best_effort(says("rice", after_s=2 * SOON_S), deadline=Deadline.never()) == "rice"


async def test_without_a_deadline_a_hanging_engine_is_waited_for():
    engine = HangingEngine()
    asking = asyncio.create_task(best_effort(engine.answer(), deadline=Deadline.never()))
    await asyncio.sleep(2 * SOON_S)
    assert not asking.done()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize("deadline", [Deadline.never(), Deadline.after(3600)], ids=["never", "far"])
async def test_cancellation_of_the_caller_goes_through_to_both(deadline: Deadline):
    engine = HangingEngine()
    asking = asyncio.create_task(best_effort(engine.answer(), deadline=deadline))
    await engine.asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert engine.cancelled


async def test_the_timeout_of_the_caller_stays_its_own():
    """A cutoff around the question is earlier than the question's own deadline: it must not be swallowed."""
    engine = HangingEngine()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SOON_S):
            await best_effort(engine.answer(), deadline=Deadline.after(60))


@pytest.mark.parametrize(
    ("failure", "level"),
    [
        (DeadlineExceeded(), logging.DEBUG),
        (Overloaded("full", retry_after_s=1.0), logging.DEBUG),
        (StageError(ErrorCode.ENGINE_FAILED, "broken"), logging.WARNING),
    ],
    ids=["late", "full", "broken"],
)
async def test_an_engine_that_cannot_is_done_without_and_only_a_broken_one_is_worth_a_warning(failure, level, caplog):
    caplog.set_level(logging.DEBUG, logger="llm_engine.best_effort")
    assert await best_effort(fails(failure), deadline=Deadline.after(60)) is None
    assert [record.levelno for record in caplog.records] == [level]


@pytest.mark.parametrize("failure", [ValueError("a bug"), MediaError(ErrorCode.NOT_MEDIA, "not ours")])
async def test_other_errors_are_not_hidden(failure: Exception):
    with pytest.raises(type(failure)):
        await best_effort(fails(failure), deadline=Deadline.after(60))

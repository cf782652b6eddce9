"""What every engine promises when many ask at once: who comes first, who gives up, and that nothing is left behind."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from random import Random

import pytest

from llm_engine.base import LLMEngine, LLMOutput, PriorityClass
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, Overloaded, StageError
from tests.contract.llm_calls import (
    MEALS,
    NEVER,
    TEXT,
    Call,
    answer,
    asking,
    chat,
    crowd,
    endless,
    eventually,
    full_house,
    stream,
    summary,
    within,
)
from tests.contract.llm_engines import Ability, Subject

pytestmark = [pytest.mark.models, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


async def idle(engine: LLMEngine) -> None:
    await eventually(lambda: engine.stats().running == engine.stats().waiting == 0)


def assert_given_up(outcome: LLMOutput | StageError, subject: Subject) -> None:
    """It ended at its deadline, or was turned away when it came."""
    if subject.turns_away and isinstance(outcome, Overloaded):
        assert outcome.retryable
        assert outcome.retry_after_s > 0
    else:
        assert isinstance(outcome, LLMOutput), outcome
        assert outcome.finish_reason == "deadline"


async def test_an_urgent_request_passes_many_that_came_before(subject: Subject) -> None:
    subject.needs(Ability.QUEUE)
    low = [endless(max_tokens=12, priority=PriorityClass.BACKFILL) for _ in range(6 * subject.seats)]
    async with crowd(subject.engine, low) as crowded:
        await eventually(lambda: any(call.text for call in crowded))
        urgent = Call(subject.engine, endless(max_tokens=12, priority=PriorityClass.REALTIME))
        await urgent.last()
        assert sum(call.task.done() for call in crowded) < len(low) / 2
        for call in crowded:
            assert (await call.last()).finish_reason == "length"


ORDERS: dict[str, Callable[[int], tuple[PriorityClass, Deadline]]] = {
    "class before deadline": lambda i: (PriorityClass(1 + i % 2), Deadline.after(600 - 300 * (i % 2))),
    "deadline before arrival": lambda i: (PriorityClass.INTERACTIVE, Deadline.after(600 + 60 * i)),
    "arrival": lambda _: (PriorityClass.BACKFILL, NEVER),
}


@pytest.mark.parametrize("order", ORDERS)
async def test_those_who_wait_get_a_seat_in_order(subject: Subject, order: str) -> None:
    subject.needs(Ability.QUEUE)
    count = 3 * subject.seats
    urgencies = [ORDERS[order](i) for i in Random(5).sample(range(count), count)]
    async with full_house(subject.engine, subject.seats):
        requests = [endless(max_tokens=4, priority=priority, deadline=deadline) for priority, deadline in urgencies]
        calls = []
        for request in requests:
            calls.append(Call(subject.engine, request))
            await asyncio.sleep(0.02)  # a server may hear them in another order if they are said in one breath
        await eventually(lambda: subject.engine.stats().waiting == count)
    for call in calls:
        assert (await call.last()).finish_reason == "length"
    calls.sort(key=lambda call: (call.request.priority, call.request.deadline.at_s, call.request.arrival_s))
    began_at_s = [call.began_at_s for call in calls]
    assert max(began_at_s[: subject.seats]) < min(began_at_s[2 * subject.seats :])


async def test_64_at_once_all_get_their_answer(engine: LLMEngine) -> None:
    calls = [Call(engine, summary(f"We ate soup number {i}. We drank tea.", max_tokens=6)) for i in range(64)]
    scored = asyncio.gather(*(engine.score(asking(f"soup {i}"), MEALS, deadline=NEVER) for i in range(8)))
    for call in calls:
        last = await call.last()
        assert last.request_id == call.request.request_id
        assert last.finish_reason in {"stop", "length"}
        assert last.text
    assert len(await within(scored)) == 8
    await idle(engine)


async def test_64_classes_and_deadlines_mixed_all_get_their_answer(subject: Subject) -> None:
    subject.needs(Ability.CHAT)
    random = Random(3)
    requests = [
        chat(
            f"Say {i}.",
            max_tokens=4,
            priority=random.choice(list(PriorityClass)),
            deadline=random.choice((NEVER, Deadline.after(300))),
        )
        for i in range(64)
    ]
    calls = [Call(subject.engine, request) for request in requests]
    for call in calls:
        assert (await call.last()).finish_reason in {"stop", "length"}
    await idle(subject.engine)


async def test_an_aborted_request_ends_with_its_text_so_far(subject: Subject) -> None:
    subject.needs(Ability.CHAT)
    before = subject.engine.stats()
    call = await Call(subject.engine, endless()).began()
    await within(subject.engine.abort(call.request.request_id))
    await within(subject.engine.abort(call.request.request_id))
    last = await call.last()
    assert last.finish_reason == "abort"
    assert last.text
    await idle(subject.engine)
    assert subject.engine.stats().aborted - before.aborted == 1


async def test_a_waiting_request_can_be_aborted(subject: Subject) -> None:
    subject.needs(Ability.QUEUE)
    async with full_house(subject.engine, subject.seats) as seated:
        call = Call(subject.engine, endless(priority=PriorityClass.BACKFILL))
        await eventually(lambda: subject.engine.stats().waiting == 1)
        await within(subject.engine.abort(call.request.request_id))
        assert await call.last() == call.outputs[0]
        assert (call.text, call.outputs[-1].finish_reason) == ("", "abort")
        assert not any(other.task.done() for other in seated)


async def test_an_aborted_request_frees_its_seat(subject: Subject) -> None:
    subject.needs(Ability.QUEUE)
    async with full_house(subject.engine, subject.seats) as seated:
        call = Call(subject.engine, endless(max_tokens=3, priority=PriorityClass.BACKFILL))
        await eventually(lambda: subject.engine.stats().waiting == 1)
        await within(subject.engine.abort(seated[0].request.request_id))
        assert (await call.last()).finish_reason == "length"
        assert not any(other.task.done() for other in seated[1:])


async def test_aborting_an_unknown_request_is_harmless(engine: LLMEngine) -> None:
    before = engine.stats().aborted
    await within(engine.abort("no such request"))
    done = summary(TEXT, max_tokens=2)
    await answer(engine, done)
    await within(engine.abort(done.request_id))
    assert engine.stats().aborted == before
    assert await within(engine.health())


async def test_closing_a_stream_aborts_its_request(subject: Subject) -> None:
    subject.needs(Ability.CHAT)
    before = subject.engine.stats()
    async with aclosing(stream(subject.engine, endless())) as outputs:
        async for output in outputs:
            if output.text:
                break
        assert subject.engine.stats().running == 1
    await idle(subject.engine)
    assert subject.engine.stats().aborted - before.aborted == 1


async def test_cancelling_who_listens_aborts_the_request(engine: LLMEngine) -> None:
    before = engine.stats()
    call = Call(engine, summary("A sentence. And another one, never seen.", max_tokens=1000))
    await eventually(lambda: engine.stats().requests > before.requests)
    call.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(call.task)
    await idle(engine)
    assert engine.stats().aborted - before.aborted == 1
    assert await within(engine.health())


async def test_a_storm_of_aborts_leaves_nothing_behind(subject: Subject) -> None:
    subject.needs(Ability.QUEUE)
    await idle(subject.engine)
    before = subject.engine.stats()
    async with crowd(subject.engine, [endless() for _ in range(5 * subject.seats)]) as calls:
        await eventually(lambda: any(call.text for call in calls))
    assert {(await call.last()).finish_reason for call in calls} == {"abort"}
    await idle(subject.engine)
    after = subject.engine.stats()
    assert after.aborted - before.aborted == len(calls)
    assert after.free_blocks == before.free_blocks


async def test_a_request_whose_deadline_has_passed_is_not_begun(engine: LLMEngine) -> None:
    before = engine.stats()
    last = await answer(engine, summary(TEXT, deadline=Deadline.after(-1)))
    assert (last.text, last.finish_reason) == ("", "deadline")
    after = engine.stats()
    assert after.output_tokens == before.output_tokens
    assert after.expired - before.expired == 1


async def test_a_running_request_ends_at_its_deadline_with_its_text_so_far(subject: Subject) -> None:
    subject.needs(Ability.CHAT)
    for seconds in (0.5, 2, 8, 30):  # a busy machine may need long for the first token
        call = Call(subject.engine, endless(deadline=Deadline.after(seconds)))
        assert_given_up(await call.outcome(), subject)
        if call.text:
            break
    assert call.text
    await idle(subject.engine)


async def test_a_waiting_request_ends_at_its_deadline(subject: Subject) -> None:
    subject.needs(Ability.QUEUE)
    before = subject.engine.stats()
    async with full_house(subject.engine, subject.seats) as seated:
        late = endless(priority=PriorityClass.BACKFILL, deadline=Deadline.after(0.2))
        call = Call(subject.engine, late)
        assert_given_up(await call.outcome(), subject)
        assert not call.text
        assert not any(other.task.done() for other in seated)
    after = subject.engine.stats()
    assert (after.expired + after.rejected) - (before.expired + before.rejected) == 1


async def test_a_score_in_a_full_house_comes_or_expires(subject: Subject) -> None:
    subject.needs(Ability.QUEUE)
    async with full_house(subject.engine, subject.seats):
        asked = subject.engine.score(asking(TEXT), MEALS, deadline=Deadline.after(0.3), priority=PriorityClass.BACKFILL)
        with suppress(DeadlineExceeded, *([Overloaded] if subject.turns_away else [])):
            assert len(await within(asked)) == 3


async def test_reading_ahead_waits_for_nobody(subject: Subject) -> None:
    subject.needs(Ability.QUEUE)
    async with full_house(subject.engine, subject.seats) as seated:
        await within(subject.engine.prefetch(asking(f"{TEXT} never read"), deadline=Deadline.after(0.5)))
        assert not any(call.task.done() for call in seated)

"""What every engine promises when it breaks or is closed: all who wait get an answer or a typed error."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
import pytest_asyncio

from llm_engine.base import LLMEngine, LLMOutput
from schemas.errors import DeadlineExceeded, ErrorCode, StageError
from tests.contract.llm_calls import MEALS, NEVER, TEXT, Call, asking, endless, eventually, summary, within
from tests.contract.llm_engines import Ability, EngineCase, Subject

pytestmark = [pytest.mark.models, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

LISTENERS = 12


@dataclass(frozen=True, slots=True)
class Aftermath:
    """An engine after it was broken, and how those ended who were asking."""

    subject: Subject
    outcomes: tuple[LLMOutput | StageError, ...]
    scores: tuple[object, ...]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def aftermath(engine_case: EngineCase) -> AsyncIterator[Aftermath]:
    async with engine_case.running() as subject:
        calls, scores = await busy(subject)
        await within(subject.crash())
        yield Aftermath(
            subject,
            tuple([await call.outcome() for call in calls]),
            tuple(await within(asyncio.gather(*scores, return_exceptions=True))),
        )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def closed(engine_case: EngineCase) -> AsyncIterator[Aftermath]:
    async with engine_case.running() as subject:
        calls, scores = await busy(subject)
        await within(asyncio.gather(subject.engine.close(), subject.engine.close()))
        yield Aftermath(
            subject,
            tuple([await call.outcome() for call in calls]),
            tuple(await within(asyncio.gather(*scores, return_exceptions=True))),
        )


async def busy(subject: Subject) -> tuple[list[Call], list[asyncio.Task[Sequence[float]]]]:
    """Have many ask at once, and return in the middle of it."""
    engine = subject.engine
    writes = Ability.CHAT not in subject.lacks
    asked = [endless(max_tokens=300) if writes else summary(f"Never said before {i}. {TEXT}") for i in range(LISTENERS)]
    calls = [Call(engine, request) for request in asked]
    await eventually(lambda: engine.stats().running + engine.stats().waiting == LISTENERS)
    if writes:
        await eventually(lambda: any(call.text for call in calls))
    scores = [asyncio.create_task(score(engine, f"Soup {i}")) for i in range(3)]
    await asyncio.sleep(0)
    return calls, scores


async def score(engine: LLMEngine, text: str) -> Sequence[float]:
    return await engine.score(asking(text), MEALS, deadline=NEVER)


def is_engine_failure(error: object) -> bool:
    return isinstance(error, StageError) and error.code is ErrorCode.ENGINE_FAILED and error.retryable


async def asked_again(engine: LLMEngine) -> LLMOutput | StageError:
    return await Call(engine, summary(f"Is anybody still there? {TEXT}", max_tokens=4)).outcome()


async def test_when_it_breaks_every_request_ends_by_name(aftermath: Aftermath) -> None:
    for outcome in aftermath.outcomes:
        if aftermath.subject.survives_a_crash:
            assert isinstance(outcome, LLMOutput)
            assert outcome.finish_reason in {"stop", "length"}
        else:
            assert is_engine_failure(outcome), outcome


async def test_when_it_breaks_every_score_ends_by_name(aftermath: Aftermath) -> None:
    for outcome in aftermath.scores:
        assert is_engine_failure(outcome) or (isinstance(outcome, list | tuple) and len(outcome) == 3), outcome


async def test_once_broken_it_says_so(aftermath: Aftermath) -> None:
    engine, survives = aftermath.subject.engine, aftermath.subject.survives_a_crash
    assert await within(engine.health()) is survives
    outcome = await asked_again(engine)
    assert isinstance(outcome, LLMOutput) if survives else is_engine_failure(outcome), outcome


async def test_once_broken_it_still_counts(aftermath: Aftermath) -> None:
    stats = aftermath.subject.engine.stats()
    assert (stats.running, stats.waiting) == (0, 0)
    if not aftermath.subject.survives_a_crash:
        assert stats.failed >= 1


async def test_once_broken_it_can_be_closed(aftermath: Aftermath) -> None:
    for _ in range(2):
        await within(aftermath.subject.engine.close())
    assert is_engine_failure(await asked_again(aftermath.subject.engine))


async def test_closing_ends_all_requests_as_aborted(closed: Aftermath) -> None:
    assert [outcome.finish_reason for outcome in closed.outcomes if isinstance(outcome, LLMOutput)] == [
        "abort"
    ] * LISTENERS


async def test_closing_leaves_no_score_waiting(closed: Aftermath) -> None:
    for outcome in closed.scores:
        assert is_engine_failure(outcome) or (isinstance(outcome, list | tuple) and len(outcome) == 3), outcome


async def test_a_closed_engine_refuses_by_name(closed: Aftermath) -> None:
    assert is_engine_failure(await asked_again(closed.subject.engine))
    with pytest.raises(StageError) as refusal:
        await within(closed.subject.engine.score(asking("Soup?"), MEALS, deadline=NEVER))
    assert is_engine_failure(refusal.value) or isinstance(refusal.value, DeadlineExceeded)


async def test_a_closed_engine_is_not_healthy_and_harmless(closed: Aftermath) -> None:
    engine = closed.subject.engine
    assert not await within(engine.health())
    await within(engine.abort("unknown"))
    await within(engine.prefetch(asking(TEXT), deadline=NEVER))
    await within(engine.trim())
    await within(engine.close())
    assert (engine.stats().running, engine.stats().waiting) == (0, 0)

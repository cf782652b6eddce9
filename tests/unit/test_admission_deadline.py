"""Nobody waits past the deadline, whatever the engine does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from llm_engine.admission.background import FAREWELL_S
from llm_engine.admission.deadline_guard import ABORT_S, DeadlineGuard
from llm_engine.admission.forecast import Forecast
from llm_engine.admission.meter import Meter
from llm_engine.base import LLMOutput, LLMRequest, Prompt
from schemas.errors import DeadlineExceeded, ErrorCode, StageError
from tests.unit.scripted_engine import LABELS, TEXT, ScriptedEngine, asking, last, never, outputs, within
from tests.unit.virtual_time import in_virtual_time, now_s

MEAL = Prompt("meals", "Which meal?", "We had soup.")


def guarded(engine: ScriptedEngine) -> DeadlineGuard:
    return DeadlineGuard(engine, health_timeout_s=2, clock=now_s)


@in_virtual_time
async def test_who_is_in_time_gets_everything():
    stream = await outputs(guarded(engine := ScriptedEngine()), asking(deadline=within(1)))
    assert [output.text for output in stream] == ["", "one", "one two", "one two three", TEXT]
    assert [output.finish_reason for output in stream] == [None, None, None, None, "stop"]
    assert engine.aborted == []


@in_virtual_time
async def test_at_the_deadline_the_text_so_far_is_kept_and_the_request_aborted():
    guard = guarded(engine := ScriptedEngine())
    final = await last(guard, asking(deadline=within(0.035)))
    assert (final.text, final.finish_reason) == ("one two", "deadline")
    assert now_s() == pytest.approx(0.035)
    await asyncio.sleep(0.001)
    assert engine.aborted == ["r"]
    assert engine.running == 0
    assert guard.stats().expired == 1


@in_virtual_time
async def test_an_engine_that_hangs_is_not_waited_for():
    guard = guarded(engine := ScriptedEngine())
    engine.hangs_after = 1
    final = await last(guard, asking(deadline=within(0.5)))
    assert (final.text, final.finish_reason) == ("", "deadline")
    assert now_s() == pytest.approx(0.5)
    await asyncio.sleep(ABORT_S)
    assert engine.running == 0


@in_virtual_time
async def test_not_even_one_that_cannot_be_cancelled():
    guard = guarded(engine := ScriptedEngine())
    engine.hangs_after, engine.stubborn, engine.scores_in_s = 0, True, None
    assert (await last(guard, asking(deadline=within(0.5)))).finish_reason == "deadline"
    with pytest.raises(DeadlineExceeded):
        await guard.score(MEAL, LABELS, deadline=within(0.5))
    assert now_s() == pytest.approx(1.0)
    await guard.abort("r")
    assert now_s() == pytest.approx(1.0 + ABORT_S)
    await guard.close()
    assert now_s() == pytest.approx(1.0 + ABORT_S + FAREWELL_S)
    await asyncio.sleep(3600)


@in_virtual_time
async def test_a_passed_deadline_never_reaches_the_engine():
    guard = guarded(engine := ScriptedEngine())
    assert (await last(guard, asking(deadline=within(0)))).finish_reason == "deadline"
    with pytest.raises(DeadlineExceeded):
        await guard.score(MEAL, LABELS, deadline=within(-1))
    assert engine.requests == []
    assert engine.scored == 0


@in_virtual_time
async def test_a_score_past_the_deadline_is_an_error():
    guard = guarded(engine := ScriptedEngine())
    engine.scores_in_s = None
    with pytest.raises(DeadlineExceeded):
        await guard.score(MEAL, LABELS, deadline=within(0.5))
    assert now_s() == pytest.approx(0.5)
    assert guard.stats().expired == 1
    await asyncio.sleep(0)
    assert engine.running == 0


@in_virtual_time
async def test_reading_ahead_gives_up_silently():
    class Slow(ScriptedEngine):
        async def prefetch(self, prompt, *, deadline):
            await self._hang()

    await guarded(Slow()).prefetch(MEAL, deadline=within(0.5))
    assert now_s() == pytest.approx(0.5)


@in_virtual_time
async def test_an_engine_too_slow_to_say_that_it_is_well_is_not():
    guard = guarded(engine := ScriptedEngine())
    assert await guard.health()
    engine.healthy = None
    assert not await guard.health()
    assert now_s() == pytest.approx(2)


@in_virtual_time
async def test_a_cancelled_reader_is_cancelled_and_the_engine_told():
    guard = guarded(engine := ScriptedEngine())
    reader = asyncio.create_task(outputs(guard, asking()))
    await asyncio.sleep(0.025)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await asyncio.sleep(0)
    assert engine.ended == engine.aborted == ["r"]


@in_virtual_time
async def test_a_cancelled_score_is_cancelled_in_the_engine():
    guard = guarded(engine := ScriptedEngine())
    score = asyncio.create_task(guard.score(MEAL, LABELS, deadline=never()))
    await asyncio.sleep(0.005)
    score.cancel()
    with pytest.raises(asyncio.CancelledError):
        await score
    await asyncio.sleep(0)
    assert engine.running == 0


@in_virtual_time
async def test_an_aborted_stream_ends_at_once_with_what_it_has_though_the_engine_hangs():
    guard = guarded(engine := ScriptedEngine())
    engine.hangs_after = 3
    reader = asyncio.create_task(outputs(guard, asking()))
    await asyncio.sleep(0.05)
    abort = asyncio.create_task(guard.abort("r"))
    final = (await reader)[-1]
    assert (final.text, final.finish_reason) == ("one two", "abort")
    assert now_s() == pytest.approx(0.05)
    await abort


@in_virtual_time
async def test_an_abort_reaches_the_engine_though_nobody_reads_the_stream():
    guard = guarded(engine := ScriptedEngine())
    async with aclosing(guard.generate(asking())) as stream:
        await anext(stream)
        await guard.abort("r")
        await asyncio.sleep(1)
        assert engine.running == 0
        assert (await anext(stream)).finish_reason == "abort"


@in_virtual_time
async def test_a_slow_reader_misses_steps_but_nothing_of_the_text():
    guard = guarded(ScriptedEngine())
    texts = []
    async for output in guard.generate(asking()):
        texts.append(output.text)
        await asyncio.sleep(0.025)
    assert texts == ["", "one two", TEXT]


@in_virtual_time
async def test_a_slow_reader_does_not_make_the_engine_look_slow():
    forecast = Forecast(clock=now_s)
    guard = DeadlineGuard(Meter(ScriptedEngine(), forecast=forecast, clock=now_s), health_timeout_s=2, clock=now_s)
    async for _ in guard.generate(asking()):
        await asyncio.sleep(10)
    # Four steps of 10 ms for 18 characters, which are taken for 5 tokens. The evidence is old, so ask at once.
    await last(guard, asking())
    assert forecast.decode_s.value == pytest.approx(0.04 / 5)


@pytest.mark.parametrize("after", [0, 2])
@in_virtual_time
async def test_whatever_an_engine_raises_has_a_type(after):
    guard = guarded(engine := ScriptedEngine())
    engine.fails_after, engine.error = after, RuntimeError("out of blocks")
    with pytest.raises(StageError, match="out of blocks") as raised:
        await outputs(guard, asking())
    assert (raised.value.code, raised.value.retryable) == (ErrorCode.ENGINE_FAILED, True)
    with pytest.raises(StageError, match="out of blocks"):
        await guard.score(MEAL, LABELS, deadline=never())


@in_virtual_time
async def test_typed_errors_pass_as_they_are():
    guard = guarded(engine := ScriptedEngine())
    engine.fails_after, engine.error = 0, StageError(ErrorCode.PROMPT_TOO_LONG, "12,000 tokens")
    with pytest.raises(StageError, match="PROMPT_TOO_LONG"):
        await outputs(guard, asking())


@in_virtual_time
async def test_a_stream_without_an_end_is_a_failure():
    class Speechless(ScriptedEngine):
        async def generate(self, request: LLMRequest) -> AsyncIterator[LLMOutput]:
            yield LLMOutput(request.request_id, "one")

    with pytest.raises(StageError, match="without a finish reason"):
        await outputs(guarded(Speechless()), asking())


@in_virtual_time
async def test_closing_ends_every_stream_as_aborted():
    guard = guarded(engine := ScriptedEngine())
    readers = [asyncio.create_task(outputs(guard, asking(request_id=str(i)))) for i in range(3)]
    score = asyncio.create_task(guard.score(MEAL, LABELS, deadline=never()))
    await asyncio.sleep(0.005)
    await guard.close()
    assert [(await reader)[-1].finish_reason for reader in readers] == ["abort"] * 3
    with pytest.raises(StageError, match="ENGINE_FAILED"):
        await score
    assert (engine.running, engine.closed) == (0, 1)


@pytest.mark.parametrize("turns", range(6))
@in_virtual_time
async def test_closing_while_requests_begin_is_as_clean(turns):
    guard = guarded(engine := ScriptedEngine())
    reader = asyncio.create_task(outputs(guard, asking()))
    score = asyncio.create_task(guard.score(MEAL, LABELS, deadline=never()))
    for _ in range(turns):
        await asyncio.sleep(0)
    closing = asyncio.create_task(guard.close())
    reader.cancel()
    score.cancel()
    await asyncio.gather(reader, score, closing, return_exceptions=True)
    assert engine.running == 0

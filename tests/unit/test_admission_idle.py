"""Memory is given back after a quiet time: once, and never while there is work."""

import asyncio
from contextlib import aclosing

from llm_engine.admission.idle import IdleTrim
from llm_engine.base import Prompt
from schemas.errors import ErrorCode, StageError
from tests.unit.scripted_engine import LABELS, ScriptedEngine, asking, last, never
from tests.unit.virtual_time import in_virtual_time, now_s

MEAL = Prompt("meals", "Which meal?", "We had soup.")


def idle(engine: ScriptedEngine) -> IdleTrim:
    return IdleTrim(engine, quiet_s=60, clock=now_s)


@in_virtual_time
async def test_a_quiet_engine_is_trimmed_once():
    front = idle(engine := ScriptedEngine())
    await last(front, asking())
    await asyncio.sleep(59)
    assert engine.trims == 0
    await asyncio.sleep(2)
    assert engine.trims == 1
    await asyncio.sleep(3600)
    assert engine.trims == 1


@in_virtual_time
async def test_an_engine_that_never_worked_has_nothing_to_trim():
    idle(engine := ScriptedEngine())
    await asyncio.sleep(3600)
    assert engine.trims == 0


@in_virtual_time
async def test_every_kind_of_work_puts_it_off():
    front = idle(engine := ScriptedEngine())
    for _ in range(3):
        await last(front, asking())
        await asyncio.sleep(50)
        await front.score(MEAL, LABELS, deadline=never())
        await asyncio.sleep(50)
        await front.prefetch(MEAL, deadline=never())
        await asyncio.sleep(50)
        await front.warm(LABELS)
        await asyncio.sleep(50)
    assert engine.trims == 0
    await asyncio.sleep(11)
    assert engine.trims == 1


@in_virtual_time
async def test_a_long_request_is_not_quiet():
    front = idle(engine := ScriptedEngine(step_s=100))
    await front.score(MEAL, LABELS, deadline=never())
    await last(front, asking())
    assert engine.trims == 0
    await asyncio.sleep(61)
    assert engine.trims == 1


@in_virtual_time
async def test_more_work_is_followed_by_another_trim():
    front = idle(engine := ScriptedEngine())
    for _ in range(2):
        await last(front, asking())
        await asyncio.sleep(61)
    assert engine.trims == 2


@in_virtual_time
async def test_work_during_a_trim_is_followed_by_another():
    class Slow(ScriptedEngine):
        async def trim(self) -> None:
            await asyncio.sleep(10)
            self.trims += 1

    front = idle(engine := Slow())
    await last(front, asking())
    await asyncio.sleep(65)
    await last(front, asking())
    await asyncio.sleep(100)
    assert engine.trims == 2


@in_virtual_time
async def test_a_stream_closed_early_is_the_end_of_work():
    front = idle(engine := ScriptedEngine())
    async with aclosing(front.generate(asking())) as stream:
        await anext(stream)
    await asyncio.sleep(61)
    assert engine.trims == 1


@in_virtual_time
async def test_a_trim_that_fails_does_no_harm(caplog):
    class Stiff(ScriptedEngine):
        async def trim(self) -> None:
            self.trims += 1
            raise StageError(ErrorCode.ENGINE_FAILED, "stuck")

    front = idle(engine := Stiff())
    for _ in range(2):
        await last(front, asking())
        await asyncio.sleep(61)
    assert engine.trims == 2
    assert "stuck" in caplog.text


@in_virtual_time
async def test_closing_ends_the_watch():
    front = idle(engine := ScriptedEngine())
    await last(front, asking())
    await front.close()
    await asyncio.sleep(3600)
    assert (engine.trims, engine.closed) == (0, 1)

"""Some replicas may die: requests go on elsewhere, in time, and no text is taken back."""

import asyncio
from contextlib import aclosing
from typing import Self

import pytest

from llm_engine.admission.breaker import BreakerSettings
from llm_engine.admission.continuation import Continuation, TextChanged
from llm_engine.admission.deadline_guard import DeadlineGuard
from llm_engine.admission.replicas import ProbeSettings, Replicas
from llm_engine.base import LLMOutput, Prompt, Sampling
from schemas.errors import ErrorCode, StageError
from tests.unit.scripted_engine import LABELS, TEXT, ScriptedEngine, asking, last, never, outputs, within
from tests.unit.virtual_time import in_virtual_time, now_s

MEAL = Prompt("meals", "Which meal?", "We had soup.")
PROBE = ProbeSettings(period_s=5, timeout_s=2, warm_timeout_s=10)
BREAKER = BreakerSettings(max_failures=2, window_s=10, cooldown_s=4, jitter=0)


class Fleet:
    """Replicas, each behind its guard, as in life."""

    def __init__(self, *engines: ScriptedEngine) -> None:
        self.engines = engines
        guards = [DeadlineGuard(engine, health_timeout_s=60, clock=now_s) for engine in engines]
        self.front = Replicas(guards, probe=PROBE, breaker=BREAKER, clock=now_s, chance=lambda: 0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.front.close()

    def start(self, request_id: str, **kwargs) -> asyncio.Task:
        return asyncio.create_task(outputs(self.front, asking(request_id=request_id, **kwargs)))

    @property
    def served(self) -> list[int]:
        return [len(engine.requests) for engine in self.engines]

    def favourite(self) -> tuple[ScriptedEngine, ScriptedEngine]:
        """Return the engine that had the only request, and another one."""
        first = self.engines[self.served.index(1)]
        return first, next(engine for engine in self.engines if engine is not first)


def fleet(count: int = 2) -> Fleet:
    return Fleet(*(ScriptedEngine() for _ in range(count)))


@in_virtual_time
async def test_load_is_spread():
    async with fleet(3) as house:
        await asyncio.gather(*(house.start(str(i)) for i in range(9)))
        assert house.served == [3, 3, 3]


@in_virtual_time
async def test_idle_replicas_are_chosen_by_the_beginning_of_the_text():
    async with fleet(3) as house:
        for end in range(4):
            await last(house.front, asking(f"Title of the clip. {end}"))
        assert sorted(house.served) == [0, 0, 4]
        for number in range(30):
            await last(house.front, asking(f"{number}: another clip"))
        assert min(house.served) > 3


@in_virtual_time
async def test_what_was_read_ahead_lies_where_the_request_goes():
    async with fleet(3) as house:
        await house.front.prefetch(Prompt("summary", "Sum up.", "Title of the clip."), deadline=never())
        await last(house.front, asking("Title of the clip. And all that is said in it."))
        assert [len(engine.prefetched) for engine in house.engines] == house.served


@pytest.mark.parametrize("after", [1, 3])
@in_virtual_time
async def test_a_request_goes_on_elsewhere_when_its_replica_breaks(after):
    async with fleet() as house:
        for engine in house.engines:
            engine.fails_after = after
        reader = house.start("r")
        await asyncio.sleep(0.001)
        _, second = house.favourite()
        second.fails_after = None
        texts = [output.text for output in await reader]
        assert texts[-1] == TEXT
        assert texts == sorted(texts, key=len), "nothing is taken back"
        assert house.served == [1, 1]


@in_virtual_time
async def test_a_replica_that_breaks_at_once_is_not_noticed():
    async with fleet() as house:
        house.engines[0].fails_after = 0
        for number in range(4):
            assert (await last(house.front, asking(f"{number}: a clip"))).text == TEXT


@in_virtual_time
async def test_what_is_left_of_the_deadline_is_all_that_the_next_one_has():
    async with fleet() as house:
        for engine in house.engines:
            engine.fails_after = 3
        reader = house.start("r", deadline=within(0.045))
        await asyncio.sleep(0.001)
        house.favourite()[1].fails_after = None
        final = (await reader)[-1]
        assert (final.text, final.finish_reason) == ("one two", "deadline")
        assert now_s() == pytest.approx(0.045)


@in_virtual_time
async def test_a_text_that_became_another_one_is_an_error():
    async with fleet() as house:
        for engine in house.engines:
            engine.fails_after = 3
        reader = house.start("r")
        await asyncio.sleep(0.001)
        first, second = house.favourite()
        second.fails_after, second.text = None, "one three five"
        with pytest.raises(TextChanged) as raised:
            await reader
        assert (raised.value.code, raised.value.retryable) == (ErrorCode.ENGINE_FAILED, True)
        assert first.running == second.running == 0


@in_virtual_time
async def test_free_sampling_begins_again_only_when_nothing_was_sent():
    async with fleet() as house:
        for engine in house.engines:
            engine.fails_after = 1
        reader = house.start("r", sampling=Sampling(temperature=1))
        await asyncio.sleep(0.001)
        house.favourite()[1].fails_after = None
        assert (await reader)[-1].text == TEXT, "an empty text can go on in any way"
    async with fleet() as house:
        for engine in house.engines:
            engine.fails_after = 2
        with pytest.raises(StageError, match="scripted"):
            await house.start("r", sampling=Sampling(temperature=1))
        assert sorted(house.served) == [0, 1]


@in_virtual_time
async def test_without_a_living_replica_there_is_an_error_at_once():
    async with fleet(3) as house:
        for engine in house.engines:
            engine.fails_after = 0
        with pytest.raises(StageError, match="none of 3") as raised:
            await last(house.front, asking())
        assert raised.value.retryable
        with pytest.raises(StageError, match="none of 3"):
            await house.front.score(MEAL, LABELS, deadline=never())
        with pytest.raises(StageError, match="none of 3"):
            await last(house.front, asking())
        assert now_s() == 0
        assert house.served == [1, 1, 1], "two failures each: the third request is sent nowhere"
        await house.front.prefetch(MEAL, deadline=never())


@in_virtual_time
async def test_a_score_goes_on_elsewhere_too():
    async with fleet() as house:
        house.engines[0].fails_after = 0
        for number in range(4):
            prompt = Prompt("meals", "", f"{number} bowls of soup")
            assert len(await house.front.score(prompt, LABELS, deadline=never())) == 2


@in_virtual_time
async def test_a_mistake_of_the_request_is_not_the_replicas():
    async with fleet() as house:
        for engine in house.engines:
            engine.fails_after, engine.error = 0, StageError(ErrorCode.PROMPT_TOO_LONG, "12,000 tokens")
        for _ in range(5):
            with pytest.raises(StageError, match="PROMPT_TOO_LONG"):
                await last(house.front, asking())
        assert sorted(house.served) == [0, 5]


@in_virtual_time
async def test_a_replica_that_fails_often_is_left_alone_until_its_probe_succeeds():
    async with Fleet(ScriptedEngine(), ScriptedEngine()) as house:
        await house.front.warm(LABELS)
        bad, good = house.engines
        bad.fails_after, bad.healthy = 0, False
        for number in range(20):
            await last(house.front, asking(f"{number}: a clip"))
        assert len(bad.requests) == 2
        await asyncio.sleep(12)
        assert len(bad.requests) == 2
        assert bad.healths > 0
        bad.fails_after, bad.healthy = None, True
        await asyncio.sleep(12)
        assert bad.warmed == [("meals",)] * 2, "its caches were lost"
        assert good.warmed == [("meals",)]
        for number in range(20):
            await last(house.front, asking(f"{number}: a clip"))
        assert len(bad.requests) > 2


@in_virtual_time
async def test_a_silent_replica_is_found_out_before_a_request_is():
    async with fleet() as house:
        await house.front.warm()
        house.engines[0].healthy = None
        await asyncio.sleep(PROBE.period_s + PROBE.timeout_s + 0.1)
        for number in range(10):
            await last(house.front, asking(f"{number}: a clip"))
        assert house.served == [0, 10]


@in_virtual_time
async def test_a_busy_replica_is_not_probed():
    async with Fleet(ScriptedEngine()) as house:
        for _ in range(100):
            await last(house.front, asking())
            await asyncio.sleep(1)
        assert house.engines[0].healths == 0


@in_virtual_time
async def test_a_request_may_try_the_last_replica_when_its_cool_down_is_over():
    async with Fleet(engine := ScriptedEngine()) as house:
        engine.fails_after = 0
        for _ in range(2):
            with pytest.raises(StageError):
                await last(house.front, asking())
        engine.fails_after = None
        await asyncio.sleep(BREAKER.cooldown_s + 0.1)
        assert (await last(house.front, asking())).text == TEXT


@in_virtual_time
async def test_an_abort_reaches_the_replica_that_has_the_request_alone():
    async with fleet(3) as house:
        reader = house.start("r")
        await asyncio.sleep(0.025)
        await house.front.abort("r")
        await house.front.abort("unknown")
        assert (await reader)[-1].finish_reason == "abort"
        assert [engine.aborted for engine in house.engines] == [["r"] if n else [] for n in house.served]


@in_virtual_time
async def test_an_aborted_request_is_not_begun_again():
    class Fragile(ScriptedEngine):
        async def abort(self, request_id: str) -> None:
            raise RuntimeError("died of it")

    engines = [Fragile(), Fragile()]
    front = Replicas(engines, probe=PROBE, breaker=BREAKER, clock=now_s, chance=lambda: 0)
    for engine in engines:
        engine.fails_after = 3
    reader = asyncio.create_task(outputs(front, asking()))
    await asyncio.sleep(0.025)
    with pytest.raises(RuntimeError):
        await front.abort("r")
    final = (await reader)[-1]
    assert (final.text, final.finish_reason) == ("one two", "abort")
    assert sum(len(engine.requests) for engine in engines) == 1
    await front.close()


@in_virtual_time
async def test_streams_that_are_closed_or_cancelled_leave_no_load_and_no_blame():
    async with fleet() as house:
        for number in range(5):
            async with aclosing(house.front.generate(asking(request_id=f"closed {number}"))) as stream:
                await anext(stream)
            reader = house.start(f"cancelled {number}")
            await asyncio.sleep(0.001)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        assert all(replica.load == 0 for replica in house.front._replicas)
        assert (await last(house.front, asking())).text == TEXT


@in_virtual_time
async def test_one_replica_that_cannot_be_warmed_does_not_stop_the_others():
    async with fleet() as house:
        house.engines[0].fails_after = 0
        await house.front.warm(LABELS)
        for number in range(10):
            await last(house.front, asking(f"{number}: a clip"))
        assert house.served == [0, 10]
    async with fleet() as house:
        for engine in house.engines:
            engine.fails_after = 0
        with pytest.raises(StageError, match="scripted"):
            await house.front.warm(LABELS)


@in_virtual_time
async def test_a_fleet_is_well_while_one_of_it_is():
    async with fleet() as house:
        house.engines[0].healthy = None
        assert await house.front.health()
        assert now_s() == PROBE.timeout_s
        house.engines[1].healthy = False
        assert not await house.front.health()


@in_virtual_time
async def test_all_replicas_count_rest_and_close():
    house = fleet()
    await asyncio.gather(house.start("a"), house.start("b"))
    assert house.front.stats().requests == 2
    assert house.front.model == "scripted"
    await house.front.trim()
    await house.front.close()
    assert [(engine.trims, engine.closed) for engine in house.engines] == [(1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("sent", "output", "expected"),
    [
        ("", LLMOutput("r", ""), ""),
        ("one", LLMOutput("r", "one two"), "one two"),
        ("one", LLMOutput("r", "on"), None),
        ("one", LLMOutput("r", "on", "deadline"), "one"),
        ("one", LLMOutput("r", "", "abort"), "one"),
        ("caf\ufffd", LLMOutput("r", "café"), "café"),
        ("one two", LLMOutput("r", "on\ufffd"), None),
    ],
)
def test_a_text_that_is_begun_again_goes_on_from_what_was_sent(sent, output, expected):
    text = Continuation()
    text.take(LLMOutput("r", sent))
    taken = text.take(output)
    assert (taken and taken.text) == expected


@pytest.mark.parametrize(
    "output", [LLMOutput("r", "on", "stop"), LLMOutput("r", "two"), LLMOutput("r", "two", "length")]
)
def test_it_never_becomes_another_one(output):
    text = Continuation()
    text.take(LLMOutput("r", "one"))
    with pytest.raises(TextChanged):
        text.take(output)

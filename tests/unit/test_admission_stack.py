"""All fronts together, before any engine: what users of the engine may rely on."""

import asyncio
import random
from contextlib import aclosing

import pytest

from llm_engine.admission import AdmissionPolicy, Router, RouteTable, admit
from llm_engine.admission.breaker import BreakerSettings
from llm_engine.admission.replicas import ProbeSettings
from llm_engine.base import LLMEngine, PriorityClass, Prompt, Sampling
from schemas.errors import StageError
from tests.unit.scripted_engine import LABELS, TEXT, ScriptedEngine, asking, last, never, outputs, within
from tests.unit.virtual_time import in_virtual_time, now_s

POLICY = AdmissionPolicy(
    seats=4,
    reserved=1,
    quiet_s=60,
    probe=ProbeSettings(period_s=5, timeout_s=1),
    breaker=BreakerSettings(max_failures=2, jitter=0),
)


def admitted(*engines: ScriptedEngine, policy: AdmissionPolicy = POLICY) -> LLMEngine:
    return admit(engines, policy, versions=("1",), clock=now_s, chance=lambda: 0.5)


@in_virtual_time
async def test_one_engine_answers_through_all_fronts():
    front = admitted(engine := ScriptedEngine())
    stream = await outputs(front, asking(deadline=within(10)))
    assert [output.text for output in stream] == ["", "one", "one two", "one two three", TEXT]
    assert stream[-1].finish_reason == "stop"
    assert len(await front.score(asking().prompt, LABELS, deadline=within(10))) == 2
    assert front.model == engine.model
    assert await front.health()
    await front.close()
    assert engine.closed == 1


@in_virtual_time
async def test_a_hit_does_not_wake_a_sleeping_engine():
    front = admitted(engine := ScriptedEngine())
    await last(front, asking())
    await asyncio.sleep(61)
    await last(front, asking())
    await asyncio.sleep(3600)
    assert engine.trims == 1
    await front.close()


@in_virtual_time
async def test_a_hung_engine_lets_everybody_go_at_their_deadline():
    front = admitted(engine := ScriptedEngine())
    engine.hangs_after, engine.stubborn = 1, True
    crowd = [asking(f"clip {i}", request_id=str(i), deadline=within(0.5)) for i in range(20)]
    finals = await asyncio.gather(*(last(front, request) for request in crowd))
    assert {final.finish_reason for final in finals} == {"deadline"}
    assert now_s() == pytest.approx(0.5)
    await front.close()
    await asyncio.sleep(7200)


@in_virtual_time
async def test_a_fleet_that_dies_while_requests_run_fails_typed_and_at_once():
    engines = [ScriptedEngine(), ScriptedEngine()]
    front = admitted(*engines)
    for engine in engines:
        engine.fails_after, engine.error = 2, ConnectionResetError("gone")
    crowd = [asking(f"clip {i}", request_id=str(i)) for i in range(20)]
    outcomes = await asyncio.gather(*(last(front, request) for request in crowd), return_exceptions=True)
    assert all(isinstance(outcome, StageError) and outcome.retryable for outcome in outcomes)
    assert now_s() < 1
    await front.close()


@in_virtual_time
async def test_each_replica_has_its_own_seats():
    engines = [ScriptedEngine(), ScriptedEngine()]
    front = admitted(*engines)
    await asyncio.gather(*(last(front, asking(f"clip {i}", request_id=str(i))) for i in range(40)))
    assert [engine.peak for engine in engines] == [4, 4]
    await front.close()


@in_virtual_time
async def test_nothing_is_kept_without_a_cache():
    policy = AdmissionPolicy(cache=None)
    front = admitted(engine := ScriptedEngine(), policy=policy)
    for _ in range(2):
        await last(front, asking())
    assert len(engine.requests) == 2
    assert front.stats().cache_misses == 0
    await front.close()


@in_virtual_time
async def test_routes_lead_to_admitted_engines():
    light, heavy = ScriptedEngine("said by light"), ScriptedEngine("said by heavy")
    table = RouteTable(scoring="light", light="light", heavy="heavy", heavy_from_tokens=100)
    router = Router({"light": admitted(light), "heavy": admitted(heavy)}, table)
    assert (await last(router, asking())).text == "said by light"
    assert (await last(router, asking(sampling=Sampling(max_tokens=500)))).text == "said by heavy"
    await router.close()


@pytest.mark.parametrize("replicas", [1, 3])
@in_virtual_time
async def test_a_thousand_cancellations_leave_nothing_behind(replicas):
    """Requests and scores of every class, cancelled, closed, aborted, late or refused at random moments."""
    rng = random.Random(replicas)
    engines = [ScriptedEngine() for _ in range(replicas)]
    front = admitted(*engines)
    await front.warm(LABELS)

    async def read(number: int) -> None:
        data = f"clip {rng.randrange(300)}"  # some ask the same
        deadline = within(rng.choice([0.02, 0.3, 3.0, float("inf")]))
        priority = rng.choice(list(PriorityClass))
        kind = rng.choice(["text", "free text", "score", "closed", "aborted"])
        if kind == "score":
            await front.score(Prompt("meals", "", data), LABELS, deadline=deadline, priority=priority)
            return
        sampling = Sampling(temperature=float(kind == "free text"))
        request = asking(data, request_id=str(number), deadline=deadline, priority=priority, sampling=sampling)
        async with aclosing(front.generate(request)) as stream:
            steps = rng.randrange(5) if kind in ("closed", "aborted") else 99
            async for _ in stream:
                if not steps:
                    break
                steps -= 1
            if kind == "aborted":
                await front.abort(request.request_id)

    tasks = []
    for number in range(1000):
        tasks.append(asyncio.create_task(read(number)))
        await asyncio.sleep(rng.choice([0, 0, 0.001, 0.01]))
        if rng.random() < 0.5:
            rng.choice(tasks[-20:]).cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(outcome).__name__ for outcome in outcomes} == {
        "NoneType",
        "CancelledError",
        "DeadlineExceeded",
        "Overloaded",
    }
    await asyncio.sleep(0.1)
    assert [engine.running for engine in engines] == [0] * replicas
    stats = front.stats()
    assert (stats.running, stats.waiting) == (0, 0)
    # Every seat can be had again.
    began_s = now_s()
    full = [asking(f"new clip {i}", request_id=f"new {i}", deadline=never()) for i in range(4 * replicas)]
    await asyncio.gather(*(last(front, request) for request in full))
    assert now_s() - began_s == pytest.approx(0.05)
    await front.close()

"""Puts the fronts before engines, in the one order that works."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llm_engine.admission.breaker import BreakerSettings
from llm_engine.admission.deadline_guard import DeadlineGuard
from llm_engine.admission.forecast import Forecast
from llm_engine.admission.gate import SeatGate
from llm_engine.admission.idle import IdleTrim
from llm_engine.admission.meter import Meter
from llm_engine.admission.replicas import ProbeSettings, Replicas
from llm_engine.admission.result_cache import ResultCache, StoreLimits
from llm_engine.admission.result_key import ResultKeys
from llm_engine.admission.seats import SeatQueue
from llm_engine.base import LLMEngine
from schemas.deadline import Clock


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """How an engine is guarded.

    ``seats``: requests that each replica runs at once: vLLM's ``max_num_seqs``. An engine that takes seats from running
    requests for more urgent ones gets more than it runs, since it can only choose among those that it knows.
    ``reserved``: of them, for realtime. ``ageing_s``: see ``SeatQueue``. ``cache``: bounds of kept texts, and of kept
    scores; None: nothing is kept or shared. ``quiet_s``: without work, until memory is given back.
    """

    seats: int = 8
    reserved: int = 2
    ageing_s: float = 1.0
    cache: StoreLimits | None = field(default_factory=lambda: StoreLimits(max_entries=4096, max_bytes=4 * 1024**2))
    quiet_s: float = 60.0
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    breaker: BreakerSettings = field(default_factory=BreakerSettings)


def admit(
    engines: Sequence[LLMEngine],
    policy: AdmissionPolicy,
    *,
    versions: Sequence[str],
    clock: Clock = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> LLMEngine:
    """Return ``engines`` (replicas of one model; mostly one) as one that is safe to put before users.

    From the inside out: what an engine costs is measured beside it; the guard ends what is late; the gate seats, each
    replica having its own seats; replicas stand in for each other; then idleness is noticed; and what the cache knows
    disturbs none of them. ``versions`` of prompts and result schema are part of the cache's keys.
    """
    guarded = [_gated(engine, policy, clock=clock) for engine in engines]
    front: LLMEngine = guarded[0]
    if len(guarded) > 1:
        front = Replicas(guarded, probe=policy.probe, breaker=policy.breaker, clock=clock, chance=chance)
    front = IdleTrim(front, quiet_s=policy.quiet_s, clock=clock)
    if policy.cache is None:
        return front
    return ResultCache(front, keys=ResultKeys(*versions), limits=policy.cache)


def _gated(engine: LLMEngine, policy: AdmissionPolicy, *, clock: Clock) -> LLMEngine:
    forecast = Forecast(clock=clock)
    guard = DeadlineGuard(
        Meter(engine, forecast=forecast, clock=clock), health_timeout_s=policy.probe.timeout_s, clock=clock
    )
    seats = SeatQueue(seats=policy.seats, reserved=policy.reserved, ageing_s=policy.ageing_s)
    return SeatGate(guard, seats, forecast=forecast, clock=clock)

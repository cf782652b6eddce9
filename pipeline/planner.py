"""Chooses how thoroughly to look at and listen to one clip. Pure: everything it knows is handed in.

What an answer needs (all speech, one look of every kind) comes first whatever the plan, and further looks take the
time that is left. So ``auto`` has only to decide how many frames are decoded for them: as many as the most thorough
plan wants whose decoding takes no more than ``DECODE_SHARE`` of the time, by what it has cost on this machine so far. A
wrong forecast costs quality: nothing is left undone for it while there is time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from pipeline.forecast import Forecast, forecast
from pipeline.latency import TYPICAL, LatencyBook
from pipeline.plans import LADDER, Plan, plan_named
from schemas.media import ProbedMedia

DECODE_SHARE = 0.25
"""Of the time left, for decoding frames on one core. A frame that is not decoded cannot be looked at."""


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """A plan with the prediction and the reason that led to it.

    ``predicted_ms``: when the answer is whole; ``fits``: whether that is in time.
    """

    plan: Plan
    predicted_ms: float
    reason: str
    fits: bool = True


def choose_plan(
    wanted: str,
    *,
    probed: ProbedMedia,
    remaining_ms: float,
    slots: int,
    latencies: LatencyBook,
    others_ms: float = 0.0,
    language: str | None = None,
) -> ChosenPlan:
    """Return the plan for a clip of which ``remaining_ms`` are left, beside jobs with ``others_ms`` of work left.

    ``wanted`` is ``auto`` or a name of the ladder; ``language`` is that of the clip's title, if known. Raises
    ``ConfigurationError`` for another name.
    """
    ladder = LADDER if wanted == "auto" else (plan_named(wanted),)
    expect = partial(forecast, probed=probed, latencies=latencies, quantile=TYPICAL, language=language)
    forecasts = [(plan, expect(plan)) for plan in ladder]
    cheap = (pair for pair in forecasts if pair[1].decoding_ms <= DECODE_SHARE * remaining_ms)
    plan, expected = next(cheap, None) or min(forecasts, key=lambda pair: pair[1].decoding_ms)
    end_ms = expected.whole_ms(slots=slots, others_ms=others_ms)
    reason = "asked for by name" if wanted != "auto" else _reason(plan, expected, end_ms, remaining_ms)
    return ChosenPlan(plan, end_ms, reason, end_ms <= remaining_ms)


def _reason(plan: Plan, expected: Forecast, end_ms: float, remaining_ms: float) -> str:
    if remaining_ms == float("inf"):
        return "no deadline: the most thorough plan"
    frames = "" if plan is LADDER[0] else "decoding more frames would take too long; "
    if end_ms <= remaining_ms:
        return f"{frames}what is needed is predicted to take {end_ms:.0f} of {remaining_ms:.0f} ms"
    most = "speech" if expected.listening_chain_ms > remaining_ms else "all that is needed"
    return (
        f"{frames}{most} is predicted to take {end_ms:.0f} of {remaining_ms:.0f} ms: first words first, and what fits"
    )


def cut_down(chosen: ChosenPlan, *, looked: Mapping[str, int]) -> ChosenPlan:
    """Return what was done of a plan when the time got short; ``looked``: frames that each looking stage has seen."""
    done = replace(
        chosen.plan,
        frames=looked["detect"],
        ocr_frames=looked["ocr"],
        scene_frames=looked["scene"],
        unsafe_frames=looked["unsafe"],
    )
    reached = (plan.name for plan in LADDER if all(looked[name] >= share for name, share in plan.shares.items()))
    done = replace(done, name=next(reached, LADDER[-1].name))
    return replace(chosen, plan=done, reason=f"'{chosen.plan.name}', cut down when the time got short: {chosen.reason}")

"""Chooses how thoroughly to look at and listen to one clip. Pure: everything it knows is handed in.

``auto`` takes the first plan of the ladder that is predicted to fit the time left: quality degrades before anything is
dropped. The forecast rests on the measured p95 of each stage, so it follows the machine.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pipeline.forecast import Forecast, forecast
from pipeline.latency import LatencyBook
from pipeline.plans import LADDER, Plan, plan_named, plan_names
from schemas.media import ProbedMedia


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """A plan with the prediction and the reason that led to it."""

    plan: Plan
    predicted_ms: float
    reason: str


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
    if wanted != "auto":
        plan = plan_named(wanted)
        expected = forecast(plan, probed=probed, latencies=latencies)
        end_ms = expected.end_ms(slots=slots, others_ms=others_ms)
        return ChosenPlan(plan, end_ms, "asked for by name")
    forecasts = [(plan, forecast(plan, probed=probed, latencies=latencies)) for plan in _ladder(language)]
    for plan, expected in forecasts:
        end_ms = expected.end_ms(slots=slots, others_ms=others_ms)
        if end_ms <= remaining_ms:
            return ChosenPlan(plan, end_ms, _fits(plan, end_ms, remaining_ms))
    return _beside_speech(forecasts, remaining_ms=remaining_ms, slots=slots, others_ms=others_ms)


def _ladder(language: str | None) -> Iterator[Plan]:
    """Yield the plans, each also without finding out the language first where an English title makes that needless."""
    for plan in LADDER:
        yield plan
        if language == "en":
            yield replace(plan, asr="tiny.en")


def _beside_speech(
    forecasts: list[tuple[Plan, Forecast]], *, remaining_ms: float, slots: int, others_ms: float
) -> ChosenPlan:
    """Return a plan for a clip that fits no plan whole.

    Often it is speech alone that is too long. Looking less would not make it shorter: it is cut at the deadline, and
    the pictures get what the other slots have.
    """
    for plan, expected in forecasts:
        cut = replace(expected, listening_ms=min(expected.listening_ms, remaining_ms - expected.fusing_ms))
        if cut.end_ms(slots=slots, others_ms=others_ms) <= remaining_ms:
            reason = f"speech is predicted to take longer than the {remaining_ms:.0f} ms left: it is cut there"
            return ChosenPlan(plan, expected.end_ms(slots=slots, others_ms=others_ms), reason)
    plan, expected = forecasts[-1]
    reason = f"nothing is predicted to fit {remaining_ms:.0f} ms; the cheapest plan, and what is ready by then"
    return ChosenPlan(plan, expected.end_ms(slots=slots, others_ms=others_ms), reason)


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


def _fits(plan: Plan, end_ms: float, remaining_ms: float) -> str:
    if remaining_ms == float("inf"):
        return "no deadline: the most thorough plan"
    position = plan_names().index(plan.name)
    if not position:
        return f"the most thorough plan is predicted to take {end_ms:.0f} of {remaining_ms:.0f} ms"
    above = LADDER[position - 1].name
    return f"predicted to take {end_ms:.0f} of {remaining_ms:.0f} ms; '{above}' would not fit"

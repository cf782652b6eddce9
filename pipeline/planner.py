"""Chooses how thoroughly to look at and listen to one clip. Pure: everything it knows is handed in.

``auto`` takes the first plan of the ladder of which what makes an answer whole (all speech, one look of every kind, and
decoding all its frames) is predicted to fit the time left; its further looks take the time that is left after that.
The forecast rests on what stages have cost on this machine, so it follows the machine. A wrong one costs quality:
nothing is left undone for it while there is time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipeline.forecast import Forecast, forecast
from pipeline.latency import LatencyBook
from pipeline.plans import LADDER, Plan, plan_named, plan_names
from schemas.media import ProbedMedia


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """A plan with the prediction and the reason that led to it.

    ``fits``: whether the answer is predicted to be whole in time.
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
    if wanted != "auto":
        plan = plan_named(wanted)
        expected = forecast(plan, probed=probed, latencies=latencies, language=language)
        end_ms = expected.whole_ms(slots=slots, others_ms=others_ms)
        return ChosenPlan(plan, end_ms, "asked for by name", end_ms <= remaining_ms)
    forecasts = [(plan, forecast(plan, probed=probed, latencies=latencies, language=language)) for plan in LADDER]
    for plan, expected in forecasts:
        end_ms = expected.whole_ms(slots=slots, others_ms=others_ms)
        if end_ms <= remaining_ms:
            return ChosenPlan(plan, end_ms, _fits(plan, end_ms, remaining_ms))
    return _as_far_as_it_goes(forecasts, remaining_ms=remaining_ms, slots=slots, others_ms=others_ms)


DECODE_SHARE = 0.15
"""Of the time left, for decoding frames of a clip of which not everything is predicted to fit: some looks may turn out
to fit all the same, and a frame that is not decoded cannot be looked at."""


def _as_far_as_it_goes(
    forecasts: list[tuple[Plan, Forecast]], *, remaining_ms: float, slots: int, others_ms: float
) -> ChosenPlan:
    """Return a plan for a clip that is not predicted to be whole in time: what is needed most goes first then."""
    cheap = ((plan, e) for plan, e in forecasts if e.decoding_ms <= DECODE_SHARE * remaining_ms)
    plan, expected = next(cheap, forecasts[-1])
    end_ms = expected.whole_ms(slots=slots, others_ms=others_ms)
    most = "speech" if expected.listening_chain_ms > remaining_ms else "all that is needed"
    reason = f"{most} is predicted to take {end_ms:.0f} of {remaining_ms:.0f} ms: first words first, and what fits"
    return ChosenPlan(plan, end_ms, reason, fits=False)


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
        return f"what the most thorough plan needs is predicted to take {end_ms:.0f} of {remaining_ms:.0f} ms"
    above = LADDER[position - 1].name
    return f"what it needs is predicted to take {end_ms:.0f} of {remaining_ms:.0f} ms; '{above}' would not fit"

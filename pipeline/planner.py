"""Chooses how thoroughly to look at and listen to one clip. Pure: everything it knows is handed in.

The ladder holds plans from the most thorough to a glance. ``auto`` takes the first one that is predicted to fit the
time left: quality degrades before anything is dropped. The prediction is the classic lower bound on a schedule,
``max(longest chain, total work / slots)``, over the measured p95 of each stage, so it follows the machine.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.latency import LatencyBook
from schemas.errors import ConfigurationError, ErrorCode
from schemas.media import ProbedMedia, SamplingPlan
from stages.media.sampling import plan_frames
from stages.transcribe import AsrModel


@dataclass(frozen=True, slots=True)
class Plan:
    """How many frames each stage sees, and who listens: ``asr`` is a model of the transcriber, or ``auto``."""

    name: str
    frames: int
    ocr_frames: int
    scene_frames: int
    unsafe_frames: int
    asr: AsrModel
    max_side_px: int


LADDER: tuple[Plan, ...] = (
    Plan("best", frames=8, ocr_frames=8, scene_frames=4, unsafe_frames=4, asr="auto", max_side_px=960),
    Plan("thorough", frames=6, ocr_frames=5, scene_frames=3, unsafe_frames=3, asr="auto", max_side_px=640),
    Plan("standard", frames=5, ocr_frames=3, scene_frames=2, unsafe_frames=2, asr="auto", max_side_px=640),
    Plan("lean", frames=4, ocr_frames=2, scene_frames=1, unsafe_frames=1, asr="auto", max_side_px=640),
    Plan("glance", frames=1, ocr_frames=1, scene_frames=1, unsafe_frames=1, asr="auto", max_side_px=640),
)
"""Measured on the reference clips: below 5 frames objects are missed (8: 28 of 31, 5: 27, 4: 26), below 3 OCR frames
captions are; more than 640 pixels finds nothing more, and is kept for pages that people look at."""

PRIORS_MS: dict[str, float] = {
    # Milliseconds a unit on one core before anything was measured; start-up calibration replaces most of them at once.
    "frames": 1.5,  # a megapixel decoded
    "detect": 20.0,  # a frame
    "confirm": 40.0,  # a clip
    "scene": 12.0,  # a frame
    "unsafe": 24.0,
    "ocr": 40.0,
    "audio": 3.0,  # a second of sound
    "vad": 2.0,
    "transcribe:auto": 30.0,
    "transcribe:tiny.en": 24.0,
    "sentiment": 2.0,  # a text
    "text": 5.0,
    "fuse": 5.0,  # a clip
}


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """A plan with the prediction and the reason that led to it."""

    plan: Plan
    predicted_ms: float
    reason: str


def plan_names() -> tuple[str, ...]:
    """Names of the ladder, most thorough first."""
    return tuple(plan.name for plan in LADDER)


def choose_plan(
    wanted: str,
    *,
    probed: ProbedMedia,
    remaining_ms: float,
    slots: int,
    latencies: LatencyBook,
    language: str | None = None,
) -> ChosenPlan:
    """Return the plan for a clip of which ``remaining_ms`` are left.

    ``wanted`` is ``auto`` or a name of the ladder; ``language`` is that of the clip's title, if known. Raises
    ``ConfigurationError`` for another name.
    """
    if wanted != "auto":
        plan = _named(wanted)
        return ChosenPlan(plan, predict_ms(plan, probed=probed, slots=slots, latencies=latencies), "asked for by name")
    for plan in _ladder(language):
        predicted_ms = predict_ms(plan, probed=probed, slots=slots, latencies=latencies)
        if predicted_ms <= remaining_ms:
            return ChosenPlan(plan, predicted_ms, _fits(plan, predicted_ms, remaining_ms))
    return _best_beside_speech(probed=probed, remaining_ms=remaining_ms, slots=slots, latencies=latencies)


def _ladder(language: str | None) -> Iterator[Plan]:
    """Yield the plans, each also without finding out the language first where an English title makes that needless."""
    for plan in LADDER:
        yield plan
        if language == "en":
            yield replace(plan, asr="tiny.en")


def _best_beside_speech(*, probed: ProbedMedia, remaining_ms: float, slots: int, latencies: LatencyBook) -> ChosenPlan:
    """Return a plan for a clip that fits no plan whole.

    Often it is speech alone that is too long. Looking less would not make it shorter: it is cut at the deadline, and
    the pictures get what the other slots have.
    """
    for plan in LADDER:
        listening_ms = min(remaining_ms, _listening_ms(plan, probed, latencies))
        looking_ms = _looking_ms(plan, probed, latencies)
        if max(listening_ms, (listening_ms + looking_ms) / slots) <= remaining_ms:
            predicted_ms = predict_ms(plan, probed=probed, slots=slots, latencies=latencies)
            reason = f"speech is predicted to take longer than the {remaining_ms:.0f} ms left: it is cut there"
            return ChosenPlan(plan, predicted_ms, reason)
    cheapest = LADDER[-1]
    predicted_ms = predict_ms(cheapest, probed=probed, slots=slots, latencies=latencies)
    reason = f"nothing is predicted to fit {remaining_ms:.0f} ms; the cheapest plan, and what is ready by then"
    return ChosenPlan(cheapest, predicted_ms, reason)


def predict_ms(plan: Plan, *, probed: ProbedMedia, slots: int, latencies: LatencyBook) -> float:
    """Return the predicted milliseconds from now to the fused result."""
    chain_ms = _listening_ms(plan, probed, latencies)
    looking_ms = _looking_ms(plan, probed, latencies)
    return max(chain_ms, (chain_ms + looking_ms) / slots) + latencies.predict_ms("fuse", work=1)


def _listening_ms(plan: Plan, probed: ProbedMedia, latencies: LatencyBook) -> float:
    """Return the cost of the chain from sound to meaning."""
    heard_ms = sum(latencies.predict_ms(key, work=probed.audio_s) for key in ("audio", "vad", f"transcribe:{plan.asr}"))
    return heard_ms + sum(latencies.predict_ms(key, work=1) for key in ("sentiment", "text"))


def _looking_ms(plan: Plan, probed: ProbedMedia, latencies: LatencyBook) -> float:
    """Return the cost of everything that is done with pictures, decoding included."""
    if not probed.has_video:
        return 0.0
    units = {"detect": plan.frames, "ocr": plan.ocr_frames, "scene": plan.scene_frames, "unsafe": plan.unsafe_frames}
    available = probed.media.frame_count
    stages_ms = sum(latencies.predict_ms(key, work=min(count, available)) for key, count in units.items())
    confirm_ms = latencies.predict_ms("confirm", work=1)
    sampling = plan_frames(probed, count=plan.frames, max_side_px=plan.max_side_px)
    return latencies.predict_ms("frames", work=decode_work(probed, sampling)) + stages_ms + confirm_ms


SHOWING = 4.0
"""What showing a decoded picture costs (scaling it, turning its colours to RGB, handing it over), in pictures decoded.
Fitted on 30 reference clips with 1, 5 and 8 frames each: 0.76 ms a megapixel decoded, 3.4 ms one shown."""


def decode_work(probed: ProbedMedia, sampling: SamplingPlan) -> float:
    """Return what decoding ``sampling`` takes, in megapixels decoded (and one more for the errand itself)."""
    megapixels = (probed.media.width or 0) * (probed.media.height or 0) / 1e6
    return 1 + megapixels * (pictures_decoded(probed, sampling) + SHOWING * len(sampling.times_s))


def pictures_decoded(probed: ProbedMedia, sampling: SamplingPlan) -> int:
    """Return how many pictures must be decoded to show those of ``sampling``.

    All from the last key frame before a target up to it, unless an earlier target has passed there already.
    """
    if sampling.strategy == "keyframes":
        return len(sampling.times_s)
    times_s, keys_s = probed.frame_times_s, probed.keyframe_times_s or (0.0,)
    pictures = at = 0
    for target_s in sampling.times_s:
        key_s = keys_s[max(0, bisect_right(keys_s, target_s) - 1)]
        begin, end = max(at, bisect_left(times_s, key_s)), bisect_right(times_s, target_s)
        pictures, at = pictures + max(0, end - begin), end
    return pictures


def spread(count: int, *, of: int) -> frozenset[int]:
    """Return ``count`` of the indices ``0 .. of - 1``, evenly spread; all of them when it asks for more."""
    if count >= of:
        return frozenset(range(of))
    return frozenset(int((number + 0.5) * of / count) for number in range(count))


def check_plan_name(name: str) -> None:
    """Raise ``ConfigurationError`` unless ``name`` is ``auto`` or on the ladder."""
    if name != "auto":
        _named(name)


def _named(name: str) -> Plan:
    for plan in LADDER:
        if plan.name == name:
            return plan
    raise ConfigurationError(ErrorCode.INTERNAL, f"no plan {name!r}: choose auto, {', '.join(plan_names())}")


def _fits(plan: Plan, predicted_ms: float, remaining_ms: float) -> str:
    if remaining_ms == float("inf"):
        return "no deadline: the most thorough plan"
    position = plan_names().index(plan.name)
    if not position:
        return f"the most thorough plan is predicted to take {predicted_ms:.0f} of {remaining_ms:.0f} ms"
    above = LADDER[position - 1].name
    return f"predicted to take {predicted_ms:.0f} of {remaining_ms:.0f} ms; '{above}' would not fit"

"""How thoroughly a clip may be looked at and listened to. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.errors import ConfigurationError, ErrorCode
from schemas.media import ProbedMedia, SamplingPlan
from stages.media.sampling import plan_frames
from stages.transcribe import AsrModel


@dataclass(frozen=True, slots=True)
class Plan:
    """How many frames each stage sees, and who listens: ``asr`` is a model of the transcriber, or ``auto``.

    ``key_frames_only``: for long shots of many pixels, where decoding up to other frames would take all the time.
    ``hasty_asr``: one reading of what is said, where more would be better.
    """

    name: str
    frames: int
    ocr_frames: int
    scene_frames: int
    unsafe_frames: int
    asr: AsrModel
    max_side_px: int
    key_frames_only: bool = False
    hasty_asr: bool = False

    @property
    def shares(self) -> dict[str, int]:
        """How many of the frames each looking stage sees."""
        return {
            "ocr": self.ocr_frames,
            "detect": self.frames,
            "unsafe": self.unsafe_frames,
            "scene": self.scene_frames,
        }


LADDER: tuple[Plan, ...] = (
    Plan("best", frames=8, ocr_frames=8, scene_frames=4, unsafe_frames=4, asr="auto", max_side_px=960),
    Plan("thorough", frames=6, ocr_frames=5, scene_frames=3, unsafe_frames=3, asr="auto", max_side_px=640),
    Plan("standard", frames=5, ocr_frames=3, scene_frames=2, unsafe_frames=2, asr="auto", max_side_px=640),
    Plan("lean", frames=4, ocr_frames=2, scene_frames=1, unsafe_frames=1, asr="auto", max_side_px=640, hasty_asr=True),
    Plan(
        "skim",
        frames=4,
        ocr_frames=2,
        scene_frames=1,
        unsafe_frames=1,
        asr="auto",
        max_side_px=640,
        key_frames_only=True,
        hasty_asr=True,
    ),
    Plan(
        "glance", frames=1, ocr_frames=1, scene_frames=1, unsafe_frames=1, asr="auto", max_side_px=640, hasty_asr=True
    ),
)
"""Measured on the reference clips: below 5 frames objects are missed (8: 28 of 31, 5: 27, 4: 26), below 3 OCR frames
captions are; more than 640 pixels finds nothing more, and is kept for pages that people look at."""


def sample(plan: Plan, probed: ProbedMedia) -> SamplingPlan:
    """Return which frames of a clip ``plan`` decodes."""
    return plan_frames(probed, count=plan.frames, max_side_px=plan.max_side_px, key_frames_only=plan.key_frames_only)


def plan_names() -> tuple[str, ...]:
    """Names of the ladder, most thorough first."""
    return tuple(plan.name for plan in LADDER)


def plan_named(name: str) -> Plan:
    """Return the plan called ``name``. Raises ``ConfigurationError``, naming those there are."""
    for plan in LADDER:
        if plan.name == name:
            return plan
    raise ConfigurationError(ErrorCode.BAD_SETTING, f"no plan {name!r}: choose auto, {', '.join(plan_names())}")


def check_plan_name(name: str) -> None:
    """Raise ``ConfigurationError`` unless ``name`` is ``auto`` or on the ladder."""
    if name != "auto":
        plan_named(name)


def spread_out(indices: Sequence[int]) -> list[int]:
    """Return ``indices`` in an order of which every beginning is spread over all of them: the ends, then middles."""
    ordered, gaps = list(indices[:1]), [(0, len(indices) - 1)]
    if len(indices) > 1:
        ordered.append(indices[-1])
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            ordered.append(indices[middle])
            gaps += [(low, middle), (middle, high)]
    return ordered


def spread(count: int, *, of: int) -> frozenset[int]:
    """Return ``count`` of the indices ``0 .. of - 1``, evenly spread; all of them when it asks for more."""
    if count >= of:
        return frozenset(range(of))
    return frozenset(int((number + 0.5) * of / count) for number in range(count))

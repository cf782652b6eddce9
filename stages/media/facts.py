"""What decoding yields, as plain data.

Decoder processes speak in these types and import neither numpy nor pydantic: a fresh process is ready ten times sooner.
``stages/workers.py`` turns them into the project's own types, and believes none of it unchecked.
"""

from dataclasses import dataclass

from schemas.errors import WarningCode
from stages.media.orientation import Orientation

SAMPLE_RATE_HZ = 16_000
SAMPLE_BYTES = 4


_FINITE = {"allow_inf_nan": False}
"""How pydantic is to read numbers that come from a decoder process."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something odd about a file that was answered all the same."""

    code: WarningCode
    message: str


@dataclass(frozen=True, slots=True)
class MediaFacts:
    """What reading the whole file told. Times are seconds from the first displayed frame (or sample)."""

    __pydantic_config__ = _FINITE

    container: str
    duration_s: float
    video_codec: str | None = None
    audio_codec: str | None = None
    width: int | None = None
    height: int | None = None
    rotation: int = 0
    fps: float | None = None
    has_audio: bool = False
    frame_times_s: tuple[float, ...] = ()
    keyframe_times_s: tuple[float, ...] = ()
    audio_s: float = 0.0
    declared_duration_s: float | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """One decoded picture, scaled, as it lies in the file: ``orientation`` still has to be applied.

    ``rgb`` holds ``height`` rows of ``stride`` bytes, of which the first ``3 * width`` are pixels.
    """

    __pydantic_config__ = _FINITE

    t_s: float
    width: int
    height: int
    stride: int
    display_width: int
    display_height: int
    orientation: Orientation
    rgb: bytes


@dataclass(frozen=True, slots=True)
class Sound:
    """Mono sound at 16 kHz as native float32. ``start_s``: where it begins, relative to the first displayed frame."""

    __pydantic_config__ = _FINITE

    start_s: float
    samples: bytes
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Damage:
    """How decoding the pictures went."""

    packets_damaged: int
    notices: tuple[Notice, ...] = ()

"""Decoded media on its way from the decoder to the stages. In process only."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from schemas.errors import WarningCode
from schemas.result import Media

Rgb = npt.NDArray[np.uint8]
"""An upright picture in display orientation, shape (height, width, 3), RGB order."""

Samples = npt.NDArray[np.float32]
"""Mono sound, shape (n,), in [-1, 1]."""

SAMPLE_RATE_HZ = 16_000
"""Every model here listens at 16 kHz."""


@dataclass(frozen=True, slots=True)
class MediaWarning:
    """Something odd about a file that was answered all the same."""

    code: WarningCode
    message: str


@dataclass(frozen=True, slots=True)
class ProbedMedia:
    """What demuxing (not decoding) the whole file told.

    ``media`` holds the facts that go on the wire. ``frame_times_s`` are the presentation times of every video packet,
    sorted, from the first displayed frame; ``keyframe_times_s`` those from which decoding can start.
    ``audio_s`` is the length of the sound in seconds (0 without sound). ``declared_duration_s`` is the header's claim.
    """

    media: Media
    frame_times_s: tuple[float, ...] = ()
    keyframe_times_s: tuple[float, ...] = ()
    audio_s: float = 0.0
    declared_duration_s: float | None = None
    warnings: tuple[MediaWarning, ...] = ()

    @property
    def has_video(self) -> bool:
        """Whether there is at least one video packet."""
        return bool(self.frame_times_s)


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Which frames to decode. ``times_s`` ascending, seconds from the first displayed frame.

    ``strategy``: ``keyframes`` decodes key frames only (each target takes its nearest key frame), ``forward`` decodes
    up to each target. Frames are scaled down so that the longer side is at most ``max_side_px``.
    """

    times_s: tuple[float, ...]
    strategy: Literal["keyframes", "forward"]
    max_side_px: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One decoded picture. ``index`` counts the sampled frames of the clip from 0; ``t_s`` is its displayed time.

    ``image`` may be smaller than the clip; ``display_width`` x ``display_height`` is the clip's own displayed size.
    """

    index: int
    t_s: float
    image: Rgb
    display_width: int
    display_height: int


@dataclass(frozen=True, slots=True)
class FrameBatch:
    """The sampled frames of a clip, ascending in time, and what decoding them met."""

    frames: tuple[Frame, ...]
    packets_damaged: int = 0
    warnings: tuple[MediaWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class AudioClip:
    """The clip's sound, down-mixed to mono 16 kHz. ``start_s``: where sample 0 lies on the clip's time line."""

    samples: Samples
    start_s: float = 0.0
    warnings: tuple[MediaWarning, ...] = ()

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / SAMPLE_RATE_HZ

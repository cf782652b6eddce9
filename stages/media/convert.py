"""From a decoder's facts to the project's own types.

The facts come from a process that has just handled hostile bytes: whatever does not fit together is refused with
``ValueError``.
"""

import numpy as np

from schemas.media import AudioClip, Frame, MediaWarning, ProbedMedia
from schemas.result import Media
from stages.media.facts import MediaFacts, Notice, Picture, Sound


def to_probed(facts: MediaFacts) -> ProbedMedia:
    """Return what goes on the wire and what the sampling needs."""
    media = Media(
        duration_s=facts.duration_s,
        width=facts.width,
        height=facts.height,
        fps=facts.fps,
        frame_count=len(facts.frame_times_s),
        has_audio=facts.has_audio,
        rotation=facts.rotation,
        video_codec=facts.video_codec,
        audio_codec=facts.audio_codec,
        container=facts.container,
    )
    return ProbedMedia(
        media=media,
        frame_times_s=facts.frame_times_s,
        keyframe_times_s=facts.keyframe_times_s,
        audio_s=facts.audio_s,
        declared_duration_s=facts.declared_duration_s,
        warnings=to_warnings(facts.notices),
    )


def to_frame(picture: Picture, index: int) -> Frame:
    """Return the upright picture."""
    rows = np.frombuffer(picture.rgb, np.uint8, picture.height * picture.stride).reshape(picture.height, -1)
    pixels = rows[:, : 3 * picture.width].reshape(picture.height, picture.width, 3)
    return Frame(
        index=index,
        t_s=picture.t_s,
        image=picture.orientation.apply(pixels),
        display_width=picture.display_width,
        display_height=picture.display_height,
    )


def to_clip(sound: Sound) -> AudioClip:
    """Return the samples, finite and within [-1, 1]."""
    samples = np.nan_to_num(np.frombuffer(sound.samples, np.float32), posinf=1.0, neginf=-1.0)
    return AudioClip(
        samples=np.clip(samples, -1.0, 1.0, out=samples),
        start_s=sound.start_s,
        warnings=to_warnings(sound.notices),
    )


def to_warnings(notices: tuple[Notice, ...]) -> tuple[MediaWarning, ...]:
    """Return them as warnings."""
    return tuple(MediaWarning(notice.code, notice.message) for notice in notices)

"""What single units found, joined to what the clip shows and says. Pure; used while reading and by fusion."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from llm_engine.extractive import Sight
from pipeline.plain_text import plain
from schemas.media import Frame, FrameBatch, ProbedMedia
from schemas.perception import FrameDetections, FrameScene, FrameText
from schemas.result import Detection, ObjectSummary, Shot, Speech, StageStatus, TextSpan
from schemas.stage import StageResult
from stages.confirm import settle
from stages.scene import clip_scene
from stages.shots import find_shots
from stages.text_merge import merge_text
from stages.track import assign_tracks, summarize
from stages.transcribe import HeardTranscript, joined

T = TypeVar("T")


def last(parts: Sequence[T], default: T) -> T:
    """Return the newest part of a stage whose parts replace one another."""
    return parts[-1] if parts else default


def confirmed(
    seen: Sequence[FrameDetections], confirmations: Sequence[tuple[FrameDetections, ...]]
) -> tuple[FrameDetections, ...]:
    """Return what is believed of each frame: after the second opinion if it came in time, else the detector's word."""
    asked = {frame.t_s: frame for frame in last(confirmations, ())}
    alone = settle(sorted((frame for frame in seen if frame.t_s not in asked), key=lambda frame: frame.t_s))
    return tuple(sorted((*asked.values(), *alone), key=lambda frame: frame.t_s))


def objects(
    looks: Sequence[FrameDetections],
) -> tuple[tuple[Detection, ...], tuple[ObjectSummary, ...]]:
    """Return every detection with its track, and each class of object over the clip."""
    return assign_tracks(looks), summarize(looks)


def sight(scenes: Sequence[FrameScene], looks: Sequence[FrameDetections]) -> Sight:
    """Return what the pictures tell whoever reads the words: the place and how many of what."""
    places = clip_scene(scenes, looks)
    things = tuple((thing.label, thing.max_count) for thing in summarize(looks))
    return Sight(place=places[0].label if places else None, objects=things)


def captions(read: Sequence[FrameText], probed: ProbedMedia | None) -> tuple[TextSpan, ...]:
    """Return the on-screen texts, each once, with the time it shows, made plain."""
    if probed is None:
        return ()
    merged = merge_text(sorted(read, key=lambda text: text.t_s), duration_s=probed.media.duration_s)
    return tuple(span.model_copy(update={"text": plain(span.text)}) for span in merged)


def shots(frames: tuple[Frame, ...], probed: ProbedMedia | None) -> tuple[Shot, ...]:
    """Return the shots of a clip with pictures."""
    if probed is None or not frames:
        return ()
    return find_shots(FrameBatch(frames), probed)


def speech(transcribed: StageResult[HeardTranscript]) -> Speech | None:
    """Return what was said, its words made plain: nothing when there is no voice, None when nobody could listen."""
    if transcribed.status is StageStatus.ABSENT:
        return Speech()
    if not transcribed.parts:
        return None
    transcript = joined(transcribed.parts)
    segments = tuple(segment.model_copy(update={"text": plain(segment.text)}) for segment in transcript.segments)
    text = " ".join(segment.text for segment in segments if segment.text)
    return Speech(language=transcript.language, text=text, segments=segments)


def embedding(scenes: Sequence[FrameScene]) -> tuple[float, ...] | None:
    """Return the mean of the frames' embeddings at unit length, rounded to what float16 would keep."""
    if not scenes:
        return None
    mean = np.mean([scene.embedding for scene in scenes], axis=0)
    mean /= max(float(np.linalg.norm(mean)), 1e-12)
    return tuple(round(float(value), 5) for value in mean)

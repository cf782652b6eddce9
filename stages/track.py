"""Which detections in different frames are the same thing, and what was there over the whole clip.

Written here because no tracking library fits: norfair, supervision's ByteTrack, trackers and motpy all predict motion
from frame to frame with a Kalman filter and drop what was unseen for some frames, which needs ten and more frames a
second; a planner samples one every one to three seconds. They would also bring SciPy, matplotlib or torch along.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.perception import FrameDetections
from schemas.result import BoxFractions, Detection, ObjectSummary
from stages.geometry import area, overlap

GAP = 1
"""Frames for which a thing may be unseen and still be the same afterwards."""

REACH = 1.0
"""How far a thing may have moved, in its own sizes (square root of the box's area), and still be matched."""

GROWTH = 2.5
"""How much larger one box may be than the other, in area: people walk up to the camera, but are no crowd."""


@dataclass(slots=True)
class _Track:
    number: int
    last: Detection
    frame: int


def assign_tracks(frames: Sequence[FrameDetections]) -> tuple[Detection, ...]:
    """Return all detections, frame by frame, with ``track_id`` counting things from 0 in the order they appear.

    ``frames`` ascend in time. In each frame the best-fitting pairs of thing and detection are matched first.
    """
    tracks: list[_Track] = []
    numbered: list[Detection] = []
    for index, frame in enumerate(frames):
        alive = [track for track in tracks if index - track.frame <= 1 + GAP]
        matches = _matches(alive, frame.items)
        for place, item in enumerate(frame.items):
            track = matches.get(place)
            if track is None:
                track = _Track(len(tracks), item, index)
                tracks.append(track)
            track.last, track.frame = item, index
            numbered.append(item.model_copy(update={"track_id": track.number}))
    return tuple(numbered)


def summarize(frames: Sequence[FrameDetections]) -> tuple[ObjectSummary, ...]:
    """Return one line for each class that is in ``frames``, the surest first."""
    labels = {item.label for frame in frames for item in frame.items}
    return tuple(sorted((_summary(label, frames) for label in labels), key=lambda s: (-s.score, s.label)))


def _summary(label: str, frames: Sequence[FrameDetections]) -> ObjectSummary:
    seen = [(frame.t_s, [item.score for item in frame.items if item.label == label]) for frame in frames]
    times = [t_s for t_s, scores in seen if scores]
    return ObjectSummary(
        label=label,
        max_count=max(len(scores) for _, scores in seen),
        t_start_s=min(times),
        t_end_s=max(times),
        score=max(score for _, scores in seen for score in scores),
    )


def _matches(tracks: Sequence[_Track], items: Sequence[Detection]) -> dict[int, _Track]:
    """Return which track each item (by its place) continues: closest pairs first, each track and item once."""
    pairs = [
        (likeness, place, track)
        for track in tracks
        for place, item in enumerate(items)
        if track.last.label == item.label and (likeness := _likeness(track.last.box, item.box)) > 0
    ]
    matches: dict[int, _Track] = {}
    taken: set[int] = set()
    for _, place, track in sorted(pairs, key=lambda pair: -pair[0]):
        if place not in matches and track.number not in taken:
            matches[place] = track
            taken.add(track.number)
    return matches


def _likeness(a: BoxFractions, b: BoxFractions) -> float:
    """Return how well two boxes fit one thing, in [0, 2]: overlap plus nearness of the centres; 0 when they cannot."""
    small, large = sorted((area(a), area(b)))
    if not small or large > GROWTH * small:
        return 0.0
    dx, dy = (a[0] + a[2] - b[0] - b[2]) / 2, (a[1] + a[3] - b[1] - b[3]) / 2
    nearness = 1 - math.hypot(dx, dy) / (REACH * math.sqrt(large))
    return max(0.0, nearness) + overlap(a, b)

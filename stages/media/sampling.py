"""Which frames of a clip to look at. Pure.

The clip is cut into as many equal stretches (bins) as frames are wanted, and each gives the frame shown at its centre.
A key frame near the centre is taken instead: it costs one picture to decode, where another costs all pictures since the
key frame before it.
"""

import bisect
from collections.abc import Sequence

from schemas.media import ProbedMedia, SamplingPlan

NEAR = 0.4
"""How far from a bin's centre a key frame may be, in bins. Below one half, so that no two bins take the same one, and
that the very first frame (often black) is not taken for the first stretch."""


def plan_frames(media: ProbedMedia, *, count: int, max_side_px: int, key_frames_only: bool = False) -> SamplingPlan:
    """Choose up to ``count`` frames, at least one if there is any; ``max_side_px`` bounds their longer side.

    The times are those of frames that exist, ascending and distinct. ``key_frames_only`` takes no others, however far
    from the centres they lie: perhaps fewer frames, but decoding them costs next to nothing.
    """
    keys_s = tuple(dict.fromkeys(media.keyframe_times_s))
    times_s = keys_s if key_frames_only and keys_s else tuple(dict.fromkeys(media.frame_times_s))
    chosen: Sequence[float] = times_s
    if len(times_s) > count:
        bin_s = _end_s(media) / count
        near_s = float("inf") if key_frames_only else NEAR * bin_s
        centres_s = [(index + 0.5) * bin_s for index in range(count)]
        chosen = _distinct([_near_key_or_shown(media, centre_s, near_s) for centre_s in centres_s], times_s, count)
    all_keys = bool(chosen) and set(keys_s).issuperset(chosen)
    return SamplingPlan(tuple(chosen), "keyframes" if all_keys else "forward", max_side_px)


def _end_s(media: ProbedMedia) -> float:
    """Return when the last frame goes, if it is shown as long as one on average."""
    times_s = tuple(dict.fromkeys(media.frame_times_s))
    return times_s[-1] + times_s[-1] / max(1, len(times_s) - 1)


def _near_key_or_shown(media: ProbedMedia, centre_s: float, near_s: float) -> float:
    """Return the nearest key frame if it is as near as ``near_s``, else the frame shown at ``centre_s``."""
    keys = media.keyframe_times_s
    at = bisect.bisect_left(keys, centre_s)
    nearest_s = min(keys[max(0, at - 1) : at + 1], key=lambda key_s: abs(key_s - centre_s), default=float("inf"))
    if abs(nearest_s - centre_s) <= near_s and keys:
        return nearest_s
    times_s = media.frame_times_s
    return times_s[max(0, bisect.bisect_right(times_s, centre_s) - 1)]


def _distinct(chosen_s: Sequence[float], times_s: Sequence[float], count: int) -> list[float]:
    """Drop repeated times, and replace each by the frame that lies furthest from those chosen.

    A slide show holds few frames, and holds each for long: different frames tell more than evenly spread times.
    """
    distinct = sorted(set(chosen_s))
    while len(distinct) < min(count, len(times_s)):
        furthest_s = max(times_s, key=lambda time_s: _distance(distinct, time_s))
        bisect.insort(distinct, furthest_s)
    return distinct


def _distance(sorted_s: Sequence[float], time_s: float) -> float:
    at = bisect.bisect_left(sorted_s, time_s)
    return min(abs(near_s - time_s) for near_s in sorted_s[max(0, at - 1) : at + 1])

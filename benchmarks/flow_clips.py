"""The clips of the latency benchmark; those that are put together from others are made once."""

import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.audio.resampler import AudioResampler
from av.video.frame import PictureType

from benchmarks.media import REPO, Clip, load_clips

MADE = REPO / "build" / "flow-clips"
SAMPLE_RATE_HZ = 48_000


CLOSE_S = 0.05
"""Containers say durations to a frame at best."""


@dataclass(frozen=True, slots=True)
class FlowClip:
    """One clip on disk, with speech. ``language``: what is spoken, told to the baseline only.

    ``truth``: the words that are said; None where the manifest does not tell those of the part that is used. ``set``:
    that of the clip that the sound comes from, if the manifest tells sets.
    """

    name: str
    path: Path
    language: str
    seconds: float
    truth: str | None = None
    set: str = ""


def flow_clips(root: Path, *, only: str | None = None) -> list[FlowClip]:
    """Return the clips whose parts lie in ``root`` (all, or those named in ``only``, comma-separated)."""
    wanted = set(only.split(",")) if only else None
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["clip"]
    known = {clip.name: clip for clip in load_clips(root)}
    return [
        _clip(root, entry, sound=known[entry.get("sound", entry["picture"])])
        for entry in entries
        if (wanted is None or entry["name"] in wanted) and _has_parts(root, entry)
    ]


def _clip(root: Path, entry: dict[str, Any], *, sound: Clip) -> FlowClip:
    seconds = entry.get("seconds", sound.duration_s)
    return FlowClip(
        name=entry["name"],
        path=_path(root, entry),
        language=entry["language"],
        seconds=seconds,
        truth=truth_of(sound, seconds=seconds),
        set=sound.set,
    )


def truth_of(sound: Clip, *, seconds: float) -> str | None:
    """Return what ``sound`` says; None when ``seconds`` cut it off, as no manifest tells which words remain."""
    return sound.transcript if seconds >= sound.duration_s - CLOSE_S else None


def _has_parts(root: Path, entry: dict[str, Any]) -> bool:
    return all((root / entry[part]).is_file() for part in ("picture", "sound") if part in entry)


def _path(root: Path, entry: dict[str, Any]) -> Path:
    if "seconds" not in entry:
        return root / str(entry["picture"])
    path = MADE / f"{entry['name']}-{entry['seconds']}s.mp4"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part.mp4")
        _make(partial, root, entry)
        partial.rename(path)
    return path


def _make(path: Path, root: Path, entry: dict[str, Any]) -> None:
    picture, sound = root / entry["picture"], root / entry["sound"]
    rate = _frame_rate(picture)
    with av.open(str(path), "w") as target:
        video = target.add_stream("libx264", rate=rate)
        video.width, video.height, video.pix_fmt = entry["width"], entry["height"], "yuv420p"
        audio = target.add_stream("aac", rate=SAMPLE_RATE_HZ, layout="mono")
        for frame in _pictures(picture, count=round(entry["seconds"] * rate), rate=rate):
            target.mux(video.encode(frame))
        target.mux(video.encode())
        for part in _sound(sound, samples=round(entry["seconds"] * SAMPLE_RATE_HZ)):
            target.mux(audio.encode(part))
        target.mux(audio.encode())


def _pictures(source: Path, *, count: int, rate: Fraction) -> Iterator[av.VideoFrame]:
    for number, frame in enumerate(itertools.islice(_looped(source), count)):
        frame.pts, frame.time_base = number, 1 / rate
        frame.pict_type = PictureType.NONE  # or the source's key frames would stay key frames
        yield frame  # the encoder scales it


def _frame_rate(source: Path) -> Fraction:
    with av.open(str(source)) as container:
        rate = container.streams.video[0].average_rate
    assert rate is not None
    return rate


def _looped(source: Path) -> Iterator[av.VideoFrame]:
    while True:
        with av.open(str(source)) as container:
            yield from container.decode(video=0)


def _sound(source: Path, *, samples: int) -> Iterator[av.AudioFrame]:
    resampler = AudioResampler("fltp", "mono", SAMPLE_RATE_HZ)
    written = 0
    with av.open(str(source)) as container:
        for frame in container.decode(audio=0):
            for part in resampler.resample(frame):
                if written < samples:
                    part.pts, part.time_base = written, Fraction(1, SAMPLE_RATE_HZ)
                    written += part.samples
                    yield part

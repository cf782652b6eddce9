"""Small clips made on the spot, whose every frame and every second of sound is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

SOUND_RATE_HZ = 48_000
TONE_HZ = 440.0

RED, GREEN, BLUE, WHITE = (200, 30, 30), (30, 180, 30), (40, 40, 200), (230, 230, 230)


@dataclass(frozen=True, slots=True)
class Film:
    """How to encode pictures. ``stamps``: presentation time of each frame in units of 1/fps, else 0, 1, 2 ..."""

    codec: str = "libx264"
    frames: int = 50
    fps: int = 25
    width: int = 96
    height: int = 64
    gop: int = 250
    pix_fmt: str = "yuv420p"
    b_frames: int = 2
    aspect: Fraction | None = None
    turn: tuple[float, bool, bool] | None = None
    stamps: tuple[int, ...] | None = None
    first_stamp: int = 0


@dataclass(frozen=True, slots=True)
class Tone:
    """How to encode sound: a tone in ``loud`` of ``layout``'s channels, silence in the others.

    It begins at ``first_s``; packets between the two times of ``hole_s`` are left out.
    """

    codec: str = "aac"
    seconds: float = 2.0
    layout: str = "mono"
    loud: tuple[int, ...] | None = None
    rate_hz: int = SOUND_RATE_HZ
    first_s: float = 0.0
    hole_s: tuple[float, float] | None = None


def corners(film: Film, level: int = 0) -> npt.NDArray[np.uint8]:
    """Red top left, green top right, blue bottom left, white bottom right; the middle has brightness ``level``."""
    image = np.zeros((film.height, film.width, 3), np.uint8)
    y, x = film.height // 2, film.width // 2
    image[:y, :x], image[:y, x:], image[y:, :x], image[y:, x:] = RED, GREEN, BLUE, WHITE
    image[y // 2 : y + y // 2, x // 2 : x + x // 2] = level
    return image


def level_of(index: int, film: Film) -> int:
    """Brightness of the middle of a frame: it tells which frame it is."""
    return round(255 * index / max(1, film.frames - 1))


def middle(image: npt.NDArray[np.uint8]) -> float:
    """Brightness of the middle of a picture."""
    y, x = image.shape[0] // 2, image.shape[1] // 2
    return float(image[y - 2 : y + 2, x - 2 : x + 2].mean())


def write_clip(
    path: Path,
    film: Film | None = None,
    tone: Tone | None = None,
    *,
    options: dict[str, str] | None = None,
) -> Path:
    """Encode a clip; its container follows from the name. Returns ``path``."""
    with av.open(str(path), "w", options=options or {}) as container:
        video = _add_film(container, film) if film else None
        audio = _add_tone(container, tone) if tone else None
        for film_frame in _film_frames(film) if film else []:
            container.mux(video.encode(film_frame))
        for sound_frame in _sound_frames(tone) if tone else []:
            container.mux(audio.encode(sound_frame))
        for stream in (video, audio):
            if stream:
                container.mux(stream.encode(None))
    return path


def _add_film(container: av.container.OutputContainer, film: Film) -> av.VideoStream:
    stream = container.add_stream(film.codec, rate=film.fps)
    stream.width, stream.height, stream.pix_fmt = film.width, film.height, film.pix_fmt
    stream.codec_context.gop_size = film.gop
    stream.codec_context.max_b_frames = film.b_frames
    stream.codec_context.thread_count = 1
    if film.codec == "libx264":
        stream.options = {"preset": "ultrafast", "crf": "12", "x264-params": "scenecut=0"}
    if film.aspect:
        stream.codec_context.sample_aspect_ratio = film.aspect
    if film.turn:
        degrees, hflip, vflip = film.turn
        stream.set_display_rotation(degrees, hflip=hflip, vflip=vflip)
    return stream


def _film_frames(film: Film) -> Sequence[av.VideoFrame]:
    stamps = film.stamps or tuple(range(film.frames))
    frames = []
    for index, stamp in enumerate(stamps):
        frame = av.VideoFrame.from_ndarray(corners(film, level_of(index, film)), format="rgb24")
        frame.pts = film.first_stamp + stamp
        frame.time_base = Fraction(1, film.fps)
        frames.append(frame)
    return frames


def _add_tone(container: av.container.OutputContainer, tone: Tone) -> av.AudioStream:
    stream = container.add_stream(tone.codec, rate=tone.rate_hz)
    stream.layout = tone.layout
    return stream


def _sound_frames(tone: Tone) -> Sequence[av.AudioFrame]:
    layout = av.AudioLayout(tone.layout)
    count = round(tone.seconds * tone.rate_hz)
    wave = 0.5 * np.sin(2 * np.pi * TONE_HZ * np.arange(count) / tone.rate_hz)
    samples = np.zeros((layout.nb_channels, count), np.float32)
    for channel in tone.loud if tone.loud is not None else range(layout.nb_channels):
        samples[channel] = wave
    frames = []
    hole = range(*(round(t * tone.rate_hz) for t in tone.hole_s)) if tone.hole_s else ()
    for start in range(0, count, 1024):
        if start in hole:
            continue
        frame = av.AudioFrame.from_ndarray(samples[:, start : start + 1024].copy(), format="fltp", layout=tone.layout)
        frame.sample_rate = tone.rate_hz
        frame.pts = round(tone.first_s * tone.rate_hz) + start
        frame.time_base = Fraction(1, tone.rate_hz)
        frames.append(frame)
    return frames

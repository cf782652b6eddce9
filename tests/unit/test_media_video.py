import os
import random
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from schemas.errors import ErrorCode, MediaError
from schemas.media import Frame
from stages.media.convert import to_frame
from stages.media.limits import MediaLimits
from stages.media.reader import MediaReader
from tests.media_samples import BLUE, GREEN, RED, WHITE, Film, level_of, middle, write_clip

COLOURS = {"red": RED, "green": GREEN, "blue": BLUE, "white": WHITE}


class Opened:
    """A clip in this process, and what decoding it gave."""

    def __init__(self, path: Path, limits: MediaLimits | None = None) -> None:
        self.reader = MediaReader(os.fsencode(path), limits or MediaLimits(), lambda: None)
        self.facts = self.reader.probe()

    def frames(self, *times_s: float, key_only: bool = False, max_side_px: int = 640) -> list[Frame]:
        pictures = self.reader.pictures(times_s, key_only=key_only, max_side_px=max_side_px)
        return [to_frame(picture, index) for index, picture in enumerate(pictures)]

    @property
    def damaged(self) -> int:
        return self.reader.damage().packets_damaged


def opened(path: Path, film: Film) -> Opened:
    return Opened(write_clip(path, film))


def corner_names(image: np.ndarray) -> tuple[str, ...]:
    """Names of the colours top left, top right, bottom left, bottom right."""
    y, x = image.shape[0] // 8, image.shape[1] // 8
    pixels = [image[y, x], image[y, -x], image[-y, x], image[-y, -x]]
    return tuple(min(COLOURS, key=lambda name: np.abs(pixel - np.array(COLOURS[name])).sum()) for pixel in pixels)


CODECS = [
    ("a.mp4", Film()),
    ("a.mp4", Film(b_frames=0)),
    ("a.mp4", Film(gop=10)),
    ("a.mkv", Film(gop=10)),
    ("a.ts", Film(gop=10, first_stamp=90_000)),
    ("a.webm", Film(codec="libvpx", gop=20)),
    ("a.webm", Film(codec="libvpx-vp9", gop=20)),
    ("a.avi", Film(codec="mpeg4", b_frames=0, gop=12)),
    ("a.mov", Film(codec="prores_ks", pix_fmt="yuv422p10le")),
    ("a.flv", Film(codec="flv", b_frames=0, gop=10)),
    ("a.mpg", Film(codec="mpeg2video", gop=10)),
]


@pytest.mark.parametrize(("name", "film"), CODECS)
def test_each_picture_is_the_one_shown_at_its_time(tmp_path: Path, name: str, film: Film) -> None:
    clip = opened(tmp_path / name, film)
    frames = clip.frames(0.3, 0.8, 1.2, 1.9)
    assert len(frames) == 4
    for frame, wanted_s in zip(frames, (0.3, 0.8, 1.2, 1.9), strict=True):
        assert frame.t_s == pytest.approx(wanted_s, abs=0.13)
        assert middle(frame.image) == pytest.approx(level_of(round(frame.t_s * 25), film), abs=9)
    assert clip.damaged == 0


@pytest.mark.parametrize(("name", "film"), CODECS)
def test_key_pictures_alone_are_exact(tmp_path: Path, name: str, film: Film) -> None:
    clip = opened(tmp_path / name, film)
    keys = clip.facts.keyframe_times_s[-3:]
    frames = clip.frames(*keys, key_only=True)
    assert [frame.t_s for frame in frames] == pytest.approx(keys, abs=0.001)
    for frame in frames:
        assert middle(frame.image) == pytest.approx(level_of(round(frame.t_s * 25), film), abs=9)


@pytest.mark.parametrize(("name", "film"), CODECS)
def test_pictures_can_be_asked_for_again_and_out_of_order(tmp_path: Path, name: str, film: Film) -> None:
    clip = opened(tmp_path / name, film)
    asked = [(1.5,), (0.1,), (1.5,), (0.7, 1.9), (0.1,)]
    times = [[frame.t_s for frame in clip.frames(*times_s)] for times_s in asked]
    assert times[0] == times[2]
    assert times[1] == times[4]
    for got, wanted in zip(times, asked, strict=True):
        assert got == pytest.approx(wanted, abs=0.13)


def test_every_picture_can_be_had(tmp_path: Path) -> None:
    clip = opened(tmp_path / "clip.mp4", Film())
    frames = clip.frames(*clip.facts.frame_times_s)
    assert [frame.t_s for frame in frames] == list(clip.facts.frame_times_s)


def test_asking_beyond_the_end_gives_the_last_picture(tmp_path: Path) -> None:
    assert [frame.t_s for frame in opened(tmp_path / "clip.mp4", Film()).frames(9.0)] == [1.96]


@pytest.mark.parametrize(
    ("turn", "names"),
    [
        (None, ("red", "green", "blue", "white")),
        ((90, False, False), ("green", "white", "red", "blue")),
        ((-90, False, False), ("blue", "red", "white", "green")),
        ((180, False, False), ("white", "blue", "green", "red")),
        ((0, True, False), ("green", "red", "white", "blue")),
        ((0, False, True), ("blue", "white", "red", "green")),
    ],
)
def test_pictures_come_upright(tmp_path: Path, turn: tuple[float, bool, bool] | None, names: tuple[str, ...]) -> None:
    (frame,) = opened(tmp_path / "clip.mp4", Film(turn=turn)).frames(0.5)
    assert corner_names(frame.image) == names
    assert (frame.display_width, frame.display_height) == (frame.image.shape[1], frame.image.shape[0])
    assert frame.image.shape[0] == (96 if turn and turn[0] in (90, -90) else 64)


def test_pixels_come_square_and_scaled_down_but_never_up(tmp_path: Path) -> None:
    clip = opened(tmp_path / "clip.mp4", Film(aspect=Fraction(4, 3), turn=(90, False, False)))
    assert [clip.frames(0.5, max_side_px=side)[0].image.shape for side in (640, 128, 64, 1)] == [
        (128, 64, 3),
        (128, 64, 3),
        (64, 32, 3),
        (1, 1, 3),
    ]
    assert clip.frames(0.5, max_side_px=64)[0].display_height == 128


@pytest.mark.parametrize(
    ("pix_fmt", "codec"),
    [
        ("yuv420p10le", "libx265"),
        ("yuv444p", "libx264"),
        ("yuv422p", "libx264"),
        ("gray", "libx264"),
        ("rgba", "apng"),
        ("rgb24", "apng"),
        ("yuva420p", "libvpx-vp9"),
    ],
)
def test_any_pixel_format_becomes_rgb(tmp_path: Path, pix_fmt: str, codec: str) -> None:
    film = Film(codec=codec, pix_fmt=pix_fmt, frames=1 if codec == "apng" else 5)
    (frame,) = opened(tmp_path / ("clip.apng" if codec == "apng" else "clip.mkv"), film).frames(0.0)
    assert frame.image.shape == (64, 96, 3)
    if pix_fmt != "gray":
        assert corner_names(frame.image) == ("red", "green", "blue", "white")


def lose(data: bytes, start: float, stop: float) -> bytes:
    """Overwrite a stretch of a file, given as shares of its length."""
    a, b = (round(len(data) * share) for share in (start, stop))
    return data[:a] + random.Random(1).randbytes(b - a) + data[b:]


def test_damage_costs_pictures_and_not_the_rest(tmp_path: Path) -> None:
    film = Film(frames=100, gop=25)
    whole = write_clip(tmp_path / "whole.mp4", film).read_bytes()
    (tmp_path / "clip.mp4").write_bytes(lose(whole, 0.45, 0.5))
    clip = Opened(tmp_path / "clip.mp4")
    frames = clip.frames(0.2, 1.2, 2.2, 3.2)
    assert clip.damaged
    assert {round(frame.t_s, 1) for frame in frames} >= {0.2, 3.2}
    for frame in frames:
        assert corner_names(frame.image) == ("red", "green", "blue", "white")


def test_a_lost_key_picture_takes_along_those_predicted_from_it(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", Film(frames=100, gop=25, b_frames=0))
    with av.open(str(path)) as container:
        keys = [packet for packet in container.demux(video=0) if packet.is_keyframe]
        start, stop = keys[2].pos, keys[2].pos + keys[2].size
    data = path.read_bytes()
    path.write_bytes(data[: start + 5] + bytes(stop - start - 5) + data[stop:])
    clip = Opened(path)
    times = [frame.t_s for frame in clip.frames(0.4, 1.4, 2.4, 3.4)]
    assert times == pytest.approx([0.4, 1.4, 3.4], abs=0.13)
    assert clip.damaged == 1


def test_garbage_in_a_good_container_is_refused(tmp_path: Path) -> None:
    data = write_clip(tmp_path / "clip.mp4", Film(frames=100), options={"movflags": "faststart"}).read_bytes()
    at = data.index(b"mdat") + 4
    (tmp_path / "clip.mp4").write_bytes(data[:at] + random.Random(2).randbytes(len(data) - at))
    with pytest.raises(MediaError) as refused:
        Opened(tmp_path / "clip.mp4").frames(0.5, 2.5)
    assert refused.value.code is ErrorCode.DECODE_FAILED


def test_a_picture_that_grows_beyond_the_limit_is_not_decoded(tmp_path: Path) -> None:
    small = write_clip(tmp_path / "small.ts", Film(frames=25)).read_bytes()
    large = write_clip(tmp_path / "large.ts", Film(frames=25, width=384, height=256, first_stamp=25)).read_bytes()
    (tmp_path / "clip.ts").write_bytes(small + large)
    clip = Opened(tmp_path / "clip.ts", MediaLimits(max_pixels=160 * 160))
    with pytest.raises(MediaError) as refused:
        clip.frames(*clip.facts.frame_times_s)
    assert refused.value.code in (ErrorCode.TOO_MANY_PIXELS, ErrorCode.DECODE_FAILED)
    assert Opened(tmp_path / "clip.ts").frames(1.7)[0].display_width == 384

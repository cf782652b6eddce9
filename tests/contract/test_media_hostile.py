"""Files that someone has tampered with: each is answered or refused, and no decoder falls over."""

import random
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from schemas.deadline import Deadline
from schemas.errors import ErrorCode, MediaError, WarningCode
from stages.media.sampling import plan_frames
from stages.workers import DecodePool
from tests.media_samples import Film, Tone, write_clip
from tests.unit.test_media_sniff import PLAYLISTS

pytestmark = pytest.mark.asyncio(loop_scope="module")

REFUSALS = {
    ErrorCode.NOT_MEDIA,
    ErrorCode.PLAYLIST_REFUSED,
    ErrorCode.UNSUPPORTED_FORMAT,
    ErrorCode.DAMAGED_CONTAINER,
    ErrorCode.NO_VIDEO_STREAM,
    ErrorCode.UNSUPPORTED_VIDEO_CODEC,
    ErrorCode.UNSUPPORTED_AUDIO_CODEC,
    ErrorCode.ENCRYPTED,
    ErrorCode.TOO_LONG,
    ErrorCode.TOO_MANY_PIXELS,
    ErrorCode.DECODE_FAILED,
}
"""What may be said of a tampered file. Nothing of a decoder that crashed, hung or ran out of memory."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecodePool]:
    async with DecodePool(workers=2, uses_per_process=100_000) as pool:
        before = {process._process.pid for process in pool._processes}
        yield pool
        assert {process._process.pid for process in pool._processes} == before


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("clips")
    made = {
        "mp4": write_clip(folder / "a.mp4", Film(gop=12), Tone()),
        "faststart": write_clip(folder / "b.mp4", Film(gop=12), Tone(), options={"movflags": "faststart"}),
        "fragmented": write_clip(
            folder / "c.mp4", Film(gop=12), Tone(), options={"movflags": "frag_keyframe+empty_moov"}
        ),
        "webm": write_clip(folder / "d.webm", Film(codec="libvpx", gop=12), Tone(codec="libopus")),
        "avi": write_clip(folder / "e.avi", Film(codec="mpeg4", b_frames=0, gop=12), Tone(codec="pcm_s16le")),
        "ts": write_clip(folder / "f.ts", Film(gop=12), Tone()),
        "flv": write_clip(folder / "g.flv", Film(codec="flv", b_frames=0, gop=12), Tone()),
    }
    return {name: path.read_bytes() for name, path in made.items()}


async def answer(pool: DecodePool, path: Path, data: bytes) -> set[WarningCode] | ErrorCode:
    """Analyse ``data`` as a whole job would, and return its warnings or why it was refused."""
    path.write_bytes(data)  # noqa: ASYNC240  (a few kB)
    try:
        async with pool.session(path, deadline=Deadline.after(20)) as session:
            media = await session.probe()
            frames = [frame async for frame in session.frames(plan_frames(media, count=4, max_side_px=64))]
            audio = await session.audio(max_s=10)
    except MediaError as error:
        assert error.code in REFUSALS, error  # noqa: PT017
        return error.code
    assert media.media.duration_s >= 0
    assert len(frames) <= media.media.frame_count
    return {warning.code for warning in (*media.warnings, *session.warnings, *audio.warnings)}


KINDS = ["mp4", "faststart", "fragmented", "webm", "avi", "ts", "flv"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_cut_anywhere_is_answered_or_refused(
    pool: DecodePool, clips: dict[str, bytes], tmp_path: Path, kind: str
) -> None:
    whole = clips[kind]
    assert await answer(pool, tmp_path / "whole", whole) == set()
    cuts = [1, 4, 8, 12, 40, *(len(whole) * share // 20 for share in range(1, 20)), len(whole) - 1]
    answers = [await answer(pool, tmp_path / "cut", whole[:cut]) for cut in cuts]
    if kind in ("faststart", "fragmented", "webm", "avi", "flv"):
        assert all(WarningCode.TRUNCATED in given for given in answers[-8:-1] if isinstance(given, set))
    if kind == "mp4":
        assert answers[-5] is ErrorCode.DAMAGED_CONTAINER


def tampered(data: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    changed = bytearray(data)
    reach = len(data) if seed % 2 else min(len(data), 1500)
    for _ in range(rng.choice((1, 5, 50, 500))):
        changed[rng.randrange(reach)] ^= 1 << rng.randrange(8)
    if seed % 5 == 0:
        at = rng.randrange(len(data))
        changed[at:at] = rng.randbytes(rng.randrange(1, 200))
    if seed % 7 == 0:
        at = rng.randrange(len(data))
        changed[at : at + 2000] = bytes(len(changed[at : at + 2000]))
    return bytes(changed)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_with_flipped_lost_and_added_bytes_is_answered_or_refused(
    pool: DecodePool, clips: dict[str, bytes], tmp_path: Path, kind: str
) -> None:
    for seed in range(24):
        await answer(pool, tmp_path / "tampered", tampered(clips[kind], seed))


def lying_boxes(data: bytes) -> Iterator[bytes]:
    """Give every box of an MP4 in turn sizes that it does not have."""
    for kind in (
        b"ftyp",
        b"moov",
        b"trak",
        b"stbl",
        b"stsd",
        b"stsz",
        b"stts",
        b"stco",
        b"ctts",
        b"mdat",
        b"moof",
        b"trun",
    ):
        at = data.find(kind) - 4
        for size in (0, 1, 7, 8, 9, 0x7FFFFFFF, 0xFFFFFFFF):
            if at >= 0:
                yield data[:at] + struct.pack(">I", size) + data[at + 4 :]


def lying_counts(data: bytes) -> Iterator[bytes]:
    """Have the tables of an MP4 claim entries that they do not have."""
    for kind in (b"stsd", b"stsz", b"stts", b"stsc", b"stco", b"ctts", b"stss", b"elst"):
        at = data.find(kind) + 8
        for count in (0, 1, 0x00FFFFFF, 0xFFFFFFFF):
            if at >= 8:
                yield data[:at] + struct.pack(">I", count) * 2 + data[at + 8 :]


@pytest.mark.parametrize("kind", ["mp4", "faststart", "fragmented"])
async def test_boxes_and_tables_that_lie_about_their_size_are_seen_through(
    pool: DecodePool, clips: dict[str, bytes], tmp_path: Path, kind: str
) -> None:
    for data in (*lying_boxes(clips[kind]), *lying_counts(clips[kind])):
        await answer(pool, tmp_path / "lying", data)


@pytest.mark.parametrize("extension", ["mp4", "avi", "m3u8", "jpg", ""])
async def test_a_playlist_is_refused_under_any_name(pool: DecodePool, tmp_path: Path, extension: str) -> None:
    write_clip(tmp_path / "other.mp4", Film(frames=3))
    for data in PLAYLISTS.values():
        assert await answer(pool, tmp_path / f"list.{extension}", data) is ErrorCode.PLAYLIST_REFUSED


async def test_media_behind_another_extension_is_still_media(
    pool: DecodePool, clips: dict[str, bytes], tmp_path: Path
) -> None:
    for name, data in zip(("a.m3u8", "a.txt", "a.sdp", "a.png", "a.mp3", "a", "a.mp4"), clips.values(), strict=True):
        assert await answer(pool, tmp_path / name, data) == set()


async def test_random_bytes_are_refused_or_at_least_not_analysed(pool: DecodePool, tmp_path: Path) -> None:
    heads = [
        b"",
        b"\xff\xfb\x90\x64",
        b"ID3\x04\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x01\xba",
        b"\x47",
        b"\xff\xf1\x50\x80",
    ]
    for seed in range(30):
        data = heads[seed % len(heads)] + random.Random(seed).randbytes(20_000)
        given = await answer(pool, tmp_path / "random", data)
        assert isinstance(given, ErrorCode) or WarningCode.AUDIO_UNDECODABLE in given

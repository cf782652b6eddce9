"""Every hostile and odd file behaves as its manifest says, through the real decoder processes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from schemas.deadline import Deadline
from schemas.errors import MediaError, WarningCode
from schemas.media import AudioClip, Frame, ProbedMedia
from stages.media.sampling import plan_frames
from stages.workers import DecodePool, DecodeSession
from tests.conftest import SHARED_MEDIA
from tests.hard_cases import HardCase, build_hard_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

HARD = SHARED_MEDIA / "hard"
FORBIDDEN_PORT = 18_999
MAX_MEMORY_KB = 1200 * 1024
NAMES = [entry["path"] for entry in json.loads((HARD / "manifest.json").read_text("utf-8"))] if HARD.is_dir() else []


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HardCase]:
    if not NAMES:
        pytest.skip(f"no hard cases: {HARD} is not there")
    return {case.name: case for case in build_hard_folder(HARD, tmp_path_factory.mktemp("hard"))}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[DecodePool]:
    async with DecodePool(workers=2) as pool:
        yield pool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def callers() -> AsyncIterator[list[str]]:
    """Whoever connects to the port that some of the files name."""
    seen: list[str] = []

    async def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(str(writer.get_extra_info("peername")))
        writer.close()

    async with await asyncio.start_server(note, "127.0.0.1", FORBIDDEN_PORT):
        yield seen


async def analysed(session: DecodeSession) -> tuple[ProbedMedia, list[Frame], AudioClip]:
    media = await session.probe()
    frames = [frame async for frame in session.frames(plan_frames(media, count=4, max_side_px=640))]
    return media, frames, await session.audio(max_s=60)


@pytest.mark.parametrize("name", NAMES or [pytest.param("", id="no hard cases here")])
async def test_a_hard_file_is_answered_as_its_manifest_says(
    name: str, cases: dict[str, HardCase], pool: DecodePool, callers: list[str]
) -> None:
    case = cases[name]
    if not case.is_accepted:
        with pytest.raises(MediaError) as refusal:
            async with pool.session(case.path, deadline=Deadline.after(20)) as session:
                await analysed(session)
        assert refusal.value.code == case.expect["error"]
        assert "root:" not in str(refusal.value)
        assert not refusal.value.retryable
    else:
        async with pool.session(case.path, deadline=Deadline.after(20)) as session:
            media, frames, audio = await analysed(session)
            warnings = {warning.code for warning in (*media.warnings, *session.warnings, *audio.warnings)}
        assert_facts(case, media)
        assert_pictures(case, media, frames)
        assert_sound(case, media, audio)
        assert bool(warnings & {WarningCode.TRUNCATED, WarningCode.DAMAGED_PACKETS}) == (
            case.expect["result"] == "ok_partial"
        )
        assert (WarningCode.NO_VIDEO_STREAM in warnings) == case.is_sound_only
    assert callers == []


def assert_facts(case: HardCase, media: ProbedMedia) -> None:
    expect, facts = case.expect, media.media
    for key in ("width", "height", "has_audio"):
        assert expect.get(key, getattr(facts, key)) == getattr(facts, key)
    assert expect.get("frames", facts.frame_count) == facts.frame_count
    assert facts.frame_count >= expect.get("frames_min", 0)
    assert facts.frame_count == (0 if case.is_sound_only else len(media.frame_times_s))
    if "fps" in expect:
        assert facts.fps == pytest.approx(expect["fps"], rel=0.02)
    for key in ("duration", "duration_real"):
        if key in expect:
            assert facts.duration_s == pytest.approx(expect[key], abs=max(0.06, 0.02 * expect[key]))


def assert_pictures(case: HardCase, media: ProbedMedia, frames: list[Frame]) -> None:
    assert len(frames) >= min(media.media.frame_count, 3 if case.expect["result"] == "ok_partial" else 4)
    times_s = [frame.t_s for frame in frames]
    assert times_s == sorted(set(times_s))
    assert all(0 <= time_s <= media.media.duration_s for time_s in times_s)
    for frame in frames:
        assert max(frame.image.shape) <= 640
        assert (frame.display_width, frame.display_height) == (media.media.width, media.media.height)
        assert frame.image.shape[1] / frame.image.shape[0] == pytest.approx(
            frame.display_width / frame.display_height, rel=0.02
        )
        assert frame.image.flags.c_contiguous


def assert_sound(case: HardCase, media: ProbedMedia, audio: AudioClip) -> None:
    assert bool(len(audio.samples)) == media.media.has_audio
    assert bool(np.isfinite(audio.samples).all())
    assert float(np.abs(audio.samples).max(initial=0)) <= 1
    assert audio.duration_s == pytest.approx(media.audio_s, abs=0.15)
    if "audio_seconds" in case.expect:
        assert audio.duration_s == pytest.approx(case.expect["audio_seconds"], abs=0.06)
        assert media.audio_s == pytest.approx(case.expect["audio_seconds"], abs=0.06)
    if case.is_sound_only:
        assert len(audio.samples)


def peak_memory_kb(number: int) -> int:
    status = Path(f"/proc/{number}/status").read_text("ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


async def test_the_decoders_stay_within_their_memory(cases: dict[str, HardCase], pool: DecodePool) -> None:
    for process in pool._processes:
        assert peak_memory_kb(process._process.pid) < MAX_MEMORY_KB


@pytest.fixture(autouse=True)
def no_file_was_created(cases: dict[str, HardCase]) -> Iterator[None]:
    yield
    assert not Path("pwned").exists()

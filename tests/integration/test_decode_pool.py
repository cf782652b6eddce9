"""The decoder processes: alive, hung, killed, out of memory, abandoned."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, HalfsecondError, MediaError
from schemas.media import SamplingPlan
from stages.media.limits import MediaLimits
from stages.media.sampling import plan_frames
from stages.workers import DecodePool, DecodeSession
from tests.media_samples import Film, Tone, write_clip


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clips") / "clip.mp4", Film(), Tone())


@pytest.fixture(scope="module")
def slow_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Takes a tenth of a second or more to decode."""
    film = Film(frames=60, width=1280, height=720, b_frames=0)
    return write_clip(tmp_path_factory.mktemp("clips") / "slow.mp4", film)


EVERY_FRAME = SamplingPlan(times_s=tuple(index / 25 for index in range(60)), strategy="forward", max_side_px=640)
"""Of the slow clip."""


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[DecodePool]:
    async with DecodePool(workers=1, limits=MediaLimits(job_timeout_s=2.0)) as pool:
        yield pool


def pid(session: DecodeSession) -> int:
    return session._process._process.pid


def is_alive(number: int) -> bool:
    """Whether a process is there, other than as a zombie that nobody has reaped yet."""
    stat = Path(f"/proc/{number}/stat")
    return stat.exists() and stat.read_text("ascii").rpartition(")")[2].split()[0] != "Z"


def children() -> list[str]:
    """Ids of this process's own children."""
    return [
        child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text("ascii").split()
    ]


def descriptors(number: int) -> int:
    """How many files a process has open."""
    return len(list(Path(f"/proc/{number}/fd").iterdir()))


async def analyse(pool: DecodePool, path: Path) -> tuple[int, float]:
    """Return how many frames there are and how long the sound is."""
    async with pool.session(path, deadline=Deadline.after(10)) as session:
        media = await session.probe()
        frames = [frame async for frame in session.frames(plan_frames(media, count=4, max_side_px=64))]
        return len(frames), (await session.audio(max_s=60)).duration_s


async def assert_in_order(pool: DecodePool, clip: Path) -> None:
    """The pool must be as good as new, whatever happened before."""
    async with asyncio.timeout(10):
        assert await analyse(pool, clip) == (4, pytest.approx(2.0, abs=0.06))


async def test_pictures_and_sound_of_a_file_are_decoded_side_by_side(clip: Path) -> None:
    async with DecodePool(workers=2) as pool:
        deadline = Deadline.after(10)
        async with pool.session(clip, deadline=deadline) as looking, pool.session(clip, deadline=deadline) as listening:
            media, sound = await asyncio.gather(looking.probe(), listening.audio(max_s=60))
            assert pid(looking) != pid(listening)
        assert media.media.frame_count == 50
        assert sound.duration_s == pytest.approx(2.0, abs=0.06)


async def test_frames_come_one_by_one(pool: DecodePool, slow_clip: Path) -> None:
    async with pool.session(slow_clip, deadline=Deadline.after(20)) as session:
        arrivals = [time.monotonic() async for _ in session.frames(EVERY_FRAME)]
    assert len(arrivals) == 60
    assert arrivals[-1] - arrivals[0] > 0.02


async def test_refused_files_leave_the_process_in_use(pool: DecodePool, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no film", "ascii")
    before = {process._process.pid for process in pool._processes}
    for path, code in ((tmp_path / "text", ErrorCode.NOT_MEDIA), (tmp_path / "none", ErrorCode.NOT_FOUND)):
        with pytest.raises(MediaError) as refused:
            await analyse(pool, path)
        assert refused.value.code is code
    await assert_in_order(pool, clip)
    assert {process._process.pid for process in pool._processes} == before


async def test_a_name_that_no_file_can_have_is_refused(pool: DecodePool) -> None:
    for name in ("a\0b", "\ud800\udfff"):
        with pytest.raises(MediaError) as refused:
            async with pool.session(name, deadline=Deadline.after(5)):
                pass
        assert refused.value.code is ErrorCode.BAD_NAME


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_a_decoder_that_dies_takes_one_clip_with_it(pool: DecodePool, clip: Path, number: signal.Signals) -> None:
    async with pool.session(clip, deadline=Deadline.after(5)) as session:
        os.kill(pid(session), number)
        with pytest.raises(MediaError) as error:
            await session.probe()
    assert error.value.code is ErrorCode.DECODER_CRASHED
    assert number.name in error.value.message
    await assert_in_order(pool, clip)


async def test_a_decoder_that_died_while_idle_takes_no_clip_with_it(pool: DecodePool, clip: Path) -> None:
    for idle in tuple(pool._idle):
        idle._process.kill()
        await asyncio.to_thread(idle._process.wait)
    await assert_in_order(pool, clip)


async def test_a_decoder_that_hangs_is_ended_and_replaced(pool: DecodePool, clip: Path) -> None:
    async with pool.session(clip, deadline=Deadline.never()) as session:
        hung = pid(session)
        os.kill(hung, signal.SIGSTOP)
        with pytest.raises(MediaError) as error:
            await session.probe()
    assert error.value.code is ErrorCode.DECODER_TIMED_OUT
    await assert_in_order(pool, clip)
    assert not is_alive(hung)


async def test_a_hung_decoder_does_not_hold_up_a_deadline(pool: DecodePool, clip: Path) -> None:
    async with pool.session(clip, deadline=Deadline.after(0.2)) as session:
        hung = pid(session)
        os.kill(hung, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await session.probe()
    assert time.monotonic() - began < 1.0
    await assert_in_order(pool, clip)
    assert not is_alive(hung)


async def test_work_ends_at_the_deadline_and_the_process_stays(pool: DecodePool, slow_clip: Path, clip: Path) -> None:
    for _ in range(3):
        with pytest.raises(DeadlineExceeded):
            async with pool.session(slow_clip, deadline=Deadline.after(10)) as session:
                await session.probe()
                used = pid(session)
                session._deadline = Deadline.after(0.03)
                _ = [frame async for frame in session.frames(EVERY_FRAME)]
    await assert_in_order(pool, clip)
    assert {process._process.pid for process in pool._processes} == {used}


async def test_nothing_is_started_when_the_deadline_has_passed(pool: DecodePool, clip: Path) -> None:
    with pytest.raises(DeadlineExceeded):
        async with pool.session(clip, deadline=Deadline.after(0)):
            pass
    await assert_in_order(pool, clip)


async def test_a_decoder_that_eats_memory_is_stopped_and_replaced(tmp_path: Path, clip: Path) -> None:
    large = write_clip(tmp_path / "large.mp4", Film(codec="mpeg4", frames=1, width=7680, height=4320, b_frames=0))
    async with DecodePool(workers=1, limits=MediaLimits(memory_bytes=190 * 1024**2)) as pool:
        with pytest.raises(MediaError) as error:
            await analyse(pool, large)
        assert error.value.code is ErrorCode.DECODER_OUT_OF_MEMORY
        await assert_in_order(pool, clip)


async def test_leaving_early_stops_the_work_and_keeps_the_process(
    pool: DecodePool, slow_clip: Path, clip: Path
) -> None:
    async with pool.session(slow_clip, deadline=Deadline.after(20)) as session:
        await session.probe()
        used = pid(session)
        async for _ in session.frames(EVERY_FRAME):
            break
        with pytest.raises(RuntimeError, match="one thing at a time"):
            await session.audio(max_s=1)
    await assert_in_order(pool, clip)
    assert {process._process.pid for process in pool._processes} == {used}


@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.01, 0.05])
async def test_cancelling_is_never_swallowed_and_costs_no_process(
    pool: DecodePool, slow_clip: Path, clip: Path, delay_s: float
) -> None:
    before = {process._process.pid for process in pool._processes}

    async def decode_all() -> None:
        async with pool.session(slow_clip, deadline=Deadline.after(20)) as session:
            _ = [frame async for frame in session.frames(EVERY_FRAME)]

    work = asyncio.create_task(decode_all())
    await asyncio.sleep(delay_s)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await assert_in_order(pool, clip)
    assert {process._process.pid for process in pool._processes} == before


async def test_the_most_urgent_session_gets_the_next_free_process(pool: DecodePool, clip: Path) -> None:
    order: list[int] = []

    async def use(seconds: int) -> None:
        async with pool.session(clip, deadline=Deadline.after(seconds)):
            order.append(seconds)

    async with pool.session(clip, deadline=Deadline.after(5)):
        waiting = [asyncio.create_task(use(seconds)) for seconds in (30, 10, 20)]
        await asyncio.sleep(0.05)
        waiting[1].cancel()
        with pytest.raises(DeadlineExceeded):
            async with pool.session(clip, deadline=Deadline.after(0.05)):
                pass
    await asyncio.gather(waiting[0], waiting[2])
    assert order == [20, 30]


async def test_a_worn_process_is_replaced_by_one_that_is_ready(clip: Path) -> None:
    async with DecodePool(workers=1, uses_per_process=3) as pool:
        pids = []
        for _ in range(12):
            async with pool.session(clip, deadline=Deadline.after(10)) as session:
                pids.append(pid(session))
            if pool._successor_coming:
                await asyncio.gather(*pool._tasks)
        assert len(set(pids)) > 2
        await asyncio.gather(*pool._tasks)
        assert sum(is_alive(number) for number in set(pids)) <= 2


async def test_closing_ends_every_process_whatever_it_is_doing(clip: Path, slow_clip: Path) -> None:
    pool = DecodePool(workers=2)
    async with pool:
        pids = [process._process.pid for process in pool._processes]
        busy = asyncio.create_task(analyse(pool, slow_clip))
        stuck = asyncio.create_task(analyse(pool, clip))
        waiting = asyncio.create_task(analyse(pool, clip))
        await asyncio.sleep(0.02)
        os.kill(pids[0], signal.SIGSTOP)
    results = await asyncio.gather(busy, stuck, waiting, return_exceptions=True)
    assert all(isinstance(result, HalfsecondError | tuple) for result in results)
    assert not any(is_alive(number) for number in pids)
    with pytest.raises(HalfsecondError, match="closed"):
        await analyse(pool, clip)


async def test_a_pool_whose_processes_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    monkeypatch.setattr("stages.media.worker._BOOT", "raise SystemExit(3)")
    monkeypatch.setattr("stages.workers._START_ATTEMPTS", 1)
    with pytest.raises(HalfsecondError, match=r"cannot start.*exit status 3") as error:
        async with DecodePool(workers=2):
            pass
    assert error.value.code is ErrorCode.INTERNAL
    assert children() == before


async def test_a_pool_that_cannot_replace_its_last_process_fails_whoever_waits(
    clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DecodePool(workers=1) as pool:
        monkeypatch.setattr("stages.media.worker._BOOT", "raise SystemExit(3)")
        monkeypatch.setattr("stages.workers._START_ATTEMPTS", 1)
        with pytest.raises(MediaError):
            async with pool.session(clip, deadline=Deadline.never()) as session:
                os.kill(pid(session), signal.SIGKILL)
                await session.probe()
        with pytest.raises(HalfsecondError, match="cannot start"):
            await analyse(pool, clip)


async def test_decoders_ignore_the_terminal_and_end_with_their_owner(clip: Path) -> None:
    script = f"""
import asyncio, os, signal, sys
from stages.workers import DecodePool
from schemas.deadline import Deadline
async def main():
    async with DecodePool(workers=2) as pool:
        pids = [process._process.pid for process in pool._processes]
        for pid in pids:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        async with pool.session({str(clip)!r}, deadline=Deadline.after(10)) as session:
            await session.probe()
        print(*pids, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    command = [sys.executable, "-c", script]
    owner = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    orphans = [int(number) for number in owner.stdout.split()]
    assert len(orphans) == 2
    for _ in range(100):
        if not any(is_alive(number) for number in orphans):
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("a decoder outlived its owner")


async def test_many_sessions_share_few_processes(clip: Path) -> None:
    async with DecodePool(workers=2) as pool:
        results = await asyncio.gather(*(analyse(pool, clip) for _ in range(20)))
        assert {frames for frames, _ in results} == {4}
        assert len(pool._processes) == 2


async def test_no_descriptor_is_leaked(clip: Path) -> None:
    async with DecodePool(workers=1) as pool:
        (process,) = pool._processes
        counts = []
        for _ in range(3):
            for _ in range(5):
                await analyse(pool, clip)
            await asyncio.sleep(0.1)  # the process closes a file after it has been given back
            counts.append((descriptors(os.getpid()), descriptors(process._process.pid)))
    assert len(set(counts)) == 1


def test_a_decoder_process_is_light() -> None:
    """A new one may have to start while a clip waits."""
    script = "import sys, stages.media.child; sys.exit(bool({'numpy', 'pydantic', 'asyncio'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

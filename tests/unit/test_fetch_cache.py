"""Clips on disk by their hash, and where they land before."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from pipeline.fetch.cache import ClipCache
from pipeline.fetch.errors import FetchError
from pipeline.fetch.landing import Landing
from pipeline.fetch.memory import MemoryBudget
from pipeline.fetch.open_clip import OpenClip
from schemas.errors import ErrorCode
from tests.fetching import names_in, open_descriptors


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def open_cache(folder: Path, *, max_bytes: int = 1000) -> ClipCache:
    cache = ClipCache(folder, max_bytes=max_bytes)
    cache.open()
    return cache


def land(cache: ClipCache, data: bytes, *, memory: MemoryBudget | None = None, keep: bool = True) -> OpenClip:
    with Landing(cache, memory or MemoryBudget(0)) as landing:
        landing.append(data[:3])
        landing.append(data[3:])
        return landing.finish(keep=keep)


def found(cache: ClipCache, data: bytes) -> bool:
    clip = cache.find(sha256(data), lambda: False)
    if clip is not None:
        assert clip.path.read_bytes() == data
        clip.close()
    return clip is not None


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the disk take five bytes; memory takes all."""
    write = os.pwrite

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        if "memfd" not in str(Path(f"/proc/self/fd/{descriptor}").readlink()) and position + len(data) > 5:
            raise OSError(errno.ENOSPC, "no space left on device")
        return write(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)


def test_a_kept_clip_is_found_by_its_hash_also_by_another_worker(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    land(cache, b"a clip").close()
    assert found(cache, b"a clip")
    assert found(open_cache(tmp_path), b"a clip")
    assert not found(cache, b"another")
    assert names_in(tmp_path) == [sha256(b"a clip")]


def test_a_clip_not_to_be_kept_leaves_nothing_and_can_be_read(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    with land(cache, b"a clip", keep=False) as clip:
        assert names_in(tmp_path) == []
        assert clip.path.read_bytes() == b"a clip"


def test_a_clip_that_was_not_finished_leaves_nothing(tmp_path: Path) -> None:
    with Landing(open_cache(tmp_path), MemoryBudget(0)) as landing:
        landing.append(b"half")
        assert len(names_in(tmp_path)) == 1
    assert names_in(tmp_path) == []


def test_nobody_can_write_to_a_clip_through_its_path(tmp_path: Path) -> None:
    with land(open_cache(tmp_path), b"a clip") as clip, pytest.raises(OSError, match="Bad file descriptor"):
        os.write(int(clip.path.name), b"x")
    assert (tmp_path / sha256(b"a clip")).stat().st_mode & 0o777 == 0o400
    assert tmp_path.stat().st_mode & 0o022 == 0


def test_what_was_unused_for_longest_goes_first(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, max_bytes=10)
    for age, data in ((3, b"aaaa"), (2, b"bbbb")):
        land(cache, data).close()
        os.utime(tmp_path / sha256(data), (100 - age, 100 - age))
    assert found(cache, b"aaaa")
    land(cache, b"cccc").close()
    assert [found(cache, data) for data in (b"aaaa", b"bbbb", b"cccc")] == [True, False, True]


def test_of_clips_used_at_the_same_time_everybody_evicts_the_same_ones(tmp_path: Path) -> None:
    cache = open_cache(tmp_path / "clips")
    clips = [bytes([number]) * 300 for number in range(3)]
    for clip in clips:
        land(cache, clip).close()
        os.utime(tmp_path / "clips" / sha256(clip), ns=(1, 1))
    open_cache(tmp_path / "clips", max_bytes=300)
    assert names_in(tmp_path / "clips") == [max(map(sha256, clips))]


def test_a_clip_that_is_being_read_outlives_its_eviction(tmp_path: Path) -> None:
    cache = open_cache(tmp_path, max_bytes=10)
    with land(cache, b"aaaaaa") as clip:
        os.utime(tmp_path / sha256(b"aaaaaa"), (0, 0))
        land(cache, b"bbbbbb").close()
        assert not found(cache, b"aaaaaa")
        assert clip.path.read_bytes() == b"aaaaaa"


def test_a_clip_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    land(open_cache(tmp_path, max_bytes=3), b"abcd").close()
    assert names_in(tmp_path) == []


def test_a_damaged_clip_is_removed_instead_of_used(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    (tmp_path / sha256(b"a clip")).write_bytes(b"\0\0\0\0\0\0")
    assert not found(cache, b"a clip")
    assert names_in(tmp_path) == []


def test_a_link_in_the_cache_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    cache = open_cache(tmp_path / "clips")
    (tmp_path / "clips" / sha256(b"secret")).symlink_to(tmp_path / "secret")
    assert not found(cache, b"secret")


def test_leftovers_of_dead_workers_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    cache = open_cache(tmp_path)
    (tmp_path / ".partial-dead").write_bytes(b"x")
    with Landing(cache, MemoryBudget(0)) as living:
        living.append(b"a clip")
        open_cache(tmp_path)
        assert not (tmp_path / ".partial-dead").exists()
        living.finish(keep=True).close()
    assert found(cache, b"a clip")


def test_a_lowered_limit_counts_from_the_next_start(tmp_path: Path) -> None:
    land(open_cache(tmp_path), b"a clip").close()
    open_cache(tmp_path, max_bytes=5)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("trouble", ["others can write", "a file", "a link"])
def test_a_folder_that_cannot_be_trusted_is_not_used(tmp_path: Path, trouble: str) -> None:
    folder = tmp_path / "clips"
    match trouble:
        case "others can write":
            folder.mkdir()
            folder.chmod(0o777)
        case "a file":
            folder.write_bytes(b"")
        case _:
            folder.symlink_to(tmp_path)
    cache = open_cache(folder)
    with land(cache, b"a clip", memory=MemoryBudget(100)) as clip:
        assert clip.path.read_bytes() == b"a clip"
    assert not found(cache, b"a clip")


def test_a_disk_that_fills_up_sends_the_clip_to_memory(tmp_path: Path, full_disk: None) -> None:
    cache, memory = open_cache(tmp_path), MemoryBudget(100)
    with land(cache, b"a long clip", memory=memory) as clip:
        assert clip.path.read_bytes() == b"a long clip"
        assert names_in(tmp_path) == []
        assert not memory.take(90)
    assert memory.take(100), "the memory is given back with the clip"


@pytest.mark.parametrize("room", [0, 8])
def test_without_room_anywhere_the_clip_may_be_tried_again(tmp_path: Path, full_disk: None, room: int) -> None:
    memory = MemoryBudget(room)
    with pytest.raises(FetchError) as caught:
        land(open_cache(tmp_path), b"a long clip", memory=memory)
    assert caught.value.code is ErrorCode.FETCH_FAILED
    assert caught.value.retryable
    assert memory.take(room)
    assert names_in(tmp_path) == []


def test_no_descriptor_is_left_open(tmp_path: Path, full_disk: None) -> None:
    cache = open_cache(tmp_path)
    before = open_descriptors()
    land(cache, b"clip").close()
    land(cache, b"a long clip", memory=MemoryBudget(100)).close()
    found(cache, b"clip")
    with pytest.raises(FetchError):
        land(cache, b"a long clip")
    assert open_descriptors() == before

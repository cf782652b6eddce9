"""Fetching files below the configured roots, and handing them to the decoders."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pipeline.fetch import fetcher as fetcher_module
from pipeline.fetch.fetcher import Fetcher
from pipeline.fetch.open_clip import open_below
from schemas.deadline import Deadline
from schemas.errors import ConfigurationError, ErrorCode, MediaError
from schemas.job import Source
from stages.workers import DecodePool
from tests.conftest import SHIPPED_MEDIA
from tests.fetching import fetcher_for, raw_server, whole


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "clip").write_bytes(b"a clip")
    return root


@pytest.fixture
async def fetcher(root: Path, tmp_path: Path) -> AsyncIterator[Fetcher]:
    async with fetcher_for(tmp_path / "cache", fetch_roots=(root,)) as fetcher:
        yield fetcher


async def failure(fetcher: Fetcher, source: Source, *, within_s: float = 10) -> MediaError:
    with pytest.raises(MediaError) as caught:
        async with fetcher.fetch(source, deadline=Deadline.after(within_s)):
            pass
    return caught.value


async def test_a_file_below_a_root_is_read_where_it_lies(fetcher: Fetcher, root: Path) -> None:
    sha256 = hashlib.sha256(b"a clip").hexdigest()
    for promise in ({}, {"sha256": sha256}, {"size_bytes": 6}):
        source = Source.model_validate({"uri": (root / "clip").as_uri()} | promise)
        async with fetcher.fetch(source, deadline=Deadline.after(10)) as path:
            assert path.samefile(root / "clip")
        assert not path.exists()


@pytest.mark.parametrize("promise", [{"sha256": "0" * 64}, {"size_bytes": 5}])
async def test_another_file_than_promised_is_refused(fetcher: Fetcher, root: Path, promise: dict[str, object]) -> None:
    error = await failure(fetcher, Source.model_validate({"uri": (root / "clip").as_uri()} | promise))
    assert (error.code, error.retryable) == (ErrorCode.CHECKSUM_MISMATCH, False)


async def test_a_file_that_is_too_large_is_refused(root: Path, tmp_path: Path) -> None:
    async with fetcher_for(tmp_path / "cache", fetch_roots=(root,), max_file_bytes=5) as fetcher:
        error = await failure(fetcher, Source(uri=(root / "clip").as_uri()))
    assert error.code is ErrorCode.TOO_LARGE


async def test_without_roots_no_file_is_read(root: Path, tmp_path: Path) -> None:
    async with fetcher_for(tmp_path / "cache") as fetcher:
        error = await failure(fetcher, Source(uri=(root / "clip").as_uri()))
    assert error.code is ErrorCode.FETCH_REFUSED


async def test_a_file_written_to_while_it_is_used_spoils_the_answer(fetcher: Fetcher, root: Path) -> None:
    with pytest.raises(MediaError) as caught:
        async with fetcher.fetch(Source(uri=(root / "clip").as_uri()), deadline=Deadline.after(10)):
            (root / "clip").write_bytes(b"other!")
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.FETCH_FAILED, True)


async def test_the_users_own_failure_is_not_covered_up(fetcher: Fetcher, root: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with fetcher.fetch(Source(uri=(root / "clip").as_uri()), deadline=Deadline.after(10)):
            (root / "clip").write_bytes(b"other!")
            raise ZeroDivisionError


async def test_a_mount_that_hangs_holds_up_only_its_own_clips(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*arguments):
        time.sleep(0.5)
        return open_below(*arguments)

    monkeypatch.setattr(fetcher_module, "open_below", hang)
    async with raw_server() as server, fetcher_for(tmp_path / "c", port=server.port, fetch_roots=(root,)) as fetcher:
        stuck = [
            asyncio.create_task(failure(fetcher, Source(uri=f"{(root / 'clip').as_uri()}{n}"), within_s=0.1))
            for n in range(10)
        ]
        source = Source(uri=server.serve("/clip", whole(b"a clip")))
        async with fetcher.fetch(source, deadline=Deadline.after(10)) as path:
            assert path.read_bytes() == b"a clip"
        assert {(await task).code for task in stuck} == {ErrorCode.FETCH_TIMED_OUT}


async def test_a_decoder_opens_what_was_fetched(tmp_path: Path) -> None:
    clip = next(iter(sorted(SHIPPED_MEDIA.rglob("*.mp4"))))
    data = clip.read_bytes()
    async with (
        raw_server() as server,
        fetcher_for(tmp_path, port=server.port, fetch_roots=(SHIPPED_MEDIA,)) as fetcher,
        DecodePool(workers=1) as decoders,
    ):
        link = server.serve("/clip", whole(data))
        for source in (
            Source(uri=clip.as_uri()),
            Source(uri=link),
            Source(uri=link, sha256=hashlib.sha256(data).hexdigest()),
        ):
            async with (
                fetcher.fetch(source, deadline=Deadline.after(10)) as path,
                decoders.session(path, deadline=Deadline.after(10)) as session,
            ):
                assert (await session.probe()).has_video


@pytest.mark.parametrize("wrong", [{"fetch_roots": (Path("clips"),)}, {"fetch_allow_private": ("10.0.0.0/40",)}])
async def test_a_wrong_setting_is_named_at_the_start(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=f"HALFSECOND_{next(iter(wrong)).upper()}"):
        async with fetcher_for(tmp_path, **wrong):
            pass

"""Fetching over http from servers that are slow, dead, lying or hostile."""

import asyncio
import hashlib
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from pipeline.fetch.fetcher import Fetcher
from pipeline.fetch.names import Lookup
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, MediaError
from schemas.job import Source
from tests.fetching import (
    RawServer,
    cached,
    dead,
    dripping,
    endless,
    fetcher_for,
    open_descriptors,
    raw,
    raw_server,
    redirect,
    whole,
)

CLIP = b"not really a clip" * 100_000  # 1.7 MB: more than one piece
SHA256 = hashlib.sha256(CLIP).hexdigest()


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with raw_server() as server:
        yield server


@pytest.fixture
async def fetcher(server: RawServer, tmp_path: Path) -> AsyncIterator[Fetcher]:
    async with fetcher_for(tmp_path, port=server.port) as fetcher:
        yield fetcher


async def fetched(fetcher: Fetcher, source: Source, *, within_s: float = 10) -> bytes:
    async with fetcher.fetch(source, deadline=Deadline.after(within_s)) as path:
        return path.read_bytes()


async def failure(fetcher: Fetcher, source: Source | str, *, within_s: float = 10) -> MediaError:
    source = source if isinstance(source, Source) else Source(uri=source)
    with pytest.raises(MediaError) as caught:
        await fetched(fetcher, source, within_s=within_s)
    assert "169.254" not in caught.value.message
    assert "127.0.0" not in caught.value.message
    return caught.value


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with less room than the clip takes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("making a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def answers(mapping: dict[str, Sequence[str]]) -> Lookup:
    """A name server that knows ``mapping``: each question takes the next address, the last one stays."""
    left = {host: list(addresses) for host, addresses in mapping.items()}

    async def lookup(host: str, port: int) -> Sequence[str]:
        addresses = left[host]
        return [addresses.pop(0) if len(addresses) > 1 else addresses[0]]

    return lookup


class TestHonestServers:
    async def test_a_clip_arrives_whole_and_is_gone_afterwards(
        self, server: RawServer, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        source = Source(uri=server.serve("/clip?token=%2F+x", whole(CLIP)))
        async with fetcher.fetch(source, deadline=Deadline.never()) as path:
            assert path.read_bytes() == CLIP
        assert not path.exists()
        assert cached(tmp_path) == []

    async def test_the_question_says_nothing_of_us(self, server: RawServer, fetcher: Fetcher) -> None:
        await fetched(fetcher, Source(uri=server.serve("/clip", whole(CLIP, "Set-Cookie: a=b"))))
        await fetched(fetcher, Source(uri=server.url("/clip")))
        for head in server.asked:
            assert "Accept-Encoding: identity" in head
            assert not any(word in head for word in ("Cookie", "Authorization", "Referer", "Python", "aiohttp"))

    async def test_a_clip_with_a_hash_is_fetched_once(
        self, server: RawServer, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        source = Source(uri=server.serve("/clip", whole(CLIP)), sha256=SHA256, size_bytes=len(CLIP))
        assert [await fetched(fetcher, source) for _ in range(3)] == [CLIP] * 3
        assert server.count("/clip") == 1
        assert cached(tmp_path) == [SHA256]

    async def test_a_clip_is_still_there_for_the_next_worker(
        self, server: RawServer, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        source = Source(uri=server.serve("/clip", whole(CLIP)), sha256=SHA256)
        await fetched(fetcher, source)
        async with fetcher_for(tmp_path, port=server.port) as second:
            assert await fetched(second, source) == CLIP
        assert server.count("/clip") == 1

    async def test_jobs_that_ask_at_the_same_time_share_one_fetch(self, server: RawServer, fetcher: Fetcher) -> None:
        source = Source(uri=server.serve("/clip", whole(CLIP)))
        assert await asyncio.gather(*(fetched(fetcher, source) for _ in range(5))) == [CLIP] * 5
        assert server.count("/clip") == 1
        await fetched(fetcher, source)
        assert server.count("/clip") == 2

    async def test_redirects_are_followed(self, server: RawServer, fetcher: Fetcher) -> None:
        server.serve("/c", whole(CLIP))
        server.serve("/b", redirect("c", "307 Temporary Redirect"))
        assert await fetched(fetcher, Source(uri=server.serve("/a", redirect(server.url("/b"))))) == CLIP

    async def test_a_body_without_a_length_ends_with_the_connection(self, server: RawServer, fetcher: Fetcher) -> None:
        assert await fetched(fetcher, Source(uri=server.serve("/a", raw(b"HTTP/1.0 200 OK\r\n\r\n" + CLIP)))) == CLIP

    async def test_a_proxy_of_the_environment_is_not_asked(
        self, server: RawServer, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        assert await fetched(fetcher, Source(uri=server.serve("/clip", whole(CLIP)))) == CLIP


class TestBrokenServers:
    @pytest.mark.parametrize(
        ("status", "code", "retryable"),
        [
            ("404 Not Found", ErrorCode.NOT_FOUND, False),
            ("410 Gone", ErrorCode.NOT_FOUND, False),
            ("401 Unauthorized", ErrorCode.FETCH_FAILED, False),
            ("403 Forbidden", ErrorCode.FETCH_FAILED, False),
            ("204 No Content", ErrorCode.FETCH_FAILED, False),
            ("206 Partial Content", ErrorCode.FETCH_FAILED, False),
            ("304 Not Modified", ErrorCode.FETCH_FAILED, False),
            ("429 Too Many Requests", ErrorCode.FETCH_FAILED, True),
            ("500 <script>", ErrorCode.FETCH_FAILED, True),
            ("503 Service Unavailable", ErrorCode.FETCH_FAILED, True),
        ],
    )
    async def test_each_status_has_its_code(
        self, server: RawServer, fetcher: Fetcher, status: str, code: ErrorCode, retryable: bool
    ) -> None:
        error = await failure(fetcher, server.serve("/clip", whole(b"", status=status)))
        assert (error.code, error.retryable) == (code, retryable)
        assert "script" not in error.message

    @pytest.mark.parametrize(
        "bytes_sent",
        [
            b"",
            b"HTTP/1.1 200",
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n",
            bytes(range(256)) * 10,
        ],
    )
    async def test_an_answer_that_breaks_off_or_is_none_may_be_tried_again(
        self, server: RawServer, fetcher: Fetcher, tmp_path: Path, bytes_sent: bytes
    ) -> None:
        error = await failure(fetcher, server.serve("/clip", raw(bytes_sent)))
        assert (error.code, error.retryable) == (ErrorCode.FETCH_FAILED, True)
        assert cached(tmp_path) == []

    async def test_a_dead_port_may_be_tried_again(self, tmp_path: Path) -> None:
        async with fetcher_for(tmp_path, port=1) as fetcher:
            error = await failure(fetcher, "http://127.0.0.1:1/clip")
        assert (error.code, error.retryable) == (ErrorCode.FETCH_FAILED, True)

    async def test_a_name_that_nobody_knows_may_be_tried_again(self, tmp_path: Path) -> None:
        async def unknown(host: str, port: int) -> Sequence[str]:
            raise OSError("no such host")

        async with fetcher_for(tmp_path, lookup=unknown) as fetcher:
            error = await failure(fetcher, "http://nowhere.example/clip")
        assert (error.code, error.retryable) == (ErrorCode.FETCH_FAILED, True)

    @pytest.mark.parametrize("answer", [dead, dripping(), endless()])
    async def test_a_deadline_ends_the_wait_for_a_slow_server(
        self, server: RawServer, fetcher: Fetcher, tmp_path: Path, answer
    ) -> None:
        error = await failure(fetcher, server.serve("/clip", answer), within_s=0.15)
        assert (error.code, error.retryable) == (ErrorCode.FETCH_TIMED_OUT, True)
        await settled(fetcher)
        assert cached(tmp_path) == []

    async def test_a_job_without_a_deadline_does_not_wait_for_ever(self, server: RawServer, tmp_path: Path) -> None:
        async with fetcher_for(tmp_path, port=server.port, fetch_timeout_s=0.15) as fetcher:
            with pytest.raises(MediaError) as caught:
                async with fetcher.fetch(Source(uri=server.serve("/clip", dead)), deadline=Deadline.never()):
                    pass
        assert caught.value.code is ErrorCode.FETCH_TIMED_OUT

    async def test_a_deadline_that_has_passed_asks_nobody(self, server: RawServer, fetcher: Fetcher) -> None:
        error = await failure(fetcher, server.serve("/clip", whole(CLIP)), within_s=-1)
        assert error.code is ErrorCode.FETCH_TIMED_OUT
        assert server.asked == []


class TestLimits:
    async def test_100_mb_are_refused_before_they_are_read(self, server: RawServer, tmp_path: Path) -> None:
        async with fetcher_for(tmp_path, port=server.port, max_file_bytes=10_000_000) as fetcher:
            error = await failure(fetcher, server.serve("/clip", endless("Content-Length: 100000000")))
            assert (error.code, error.retryable) == (ErrorCode.TOO_LARGE, False)
            error = await failure(fetcher, Source(uri=server.url("/other"), size_bytes=100_000_000))
            assert error.code is ErrorCode.TOO_LARGE
        assert server.count("/other") == 0

    async def test_what_counts_is_what_comes_not_what_was_announced(self, server: RawServer, tmp_path: Path) -> None:
        async with fetcher_for(tmp_path, port=server.port, max_file_bytes=3_000_000) as fetcher:
            error = await failure(fetcher, server.serve("/clip", endless()))
        assert error.code is ErrorCode.TOO_LARGE
        assert cached(tmp_path) == []

    async def test_a_compressed_body_is_refused(self, server: RawServer, fetcher: Fetcher) -> None:
        error = await failure(fetcher, server.serve("/clip", whole(b"\x1f\x8b" + bytes(100), "Content-Encoding: gzip")))
        assert (error.code, error.retryable) == (ErrorCode.FETCH_FAILED, False)

    @pytest.mark.parametrize(
        "source",
        [
            {"sha256": "0" * 64},
            {"size_bytes": len(CLIP) - 1},
            {"size_bytes": len(CLIP) + 1},
            {"size_bytes": 1, "sha256": SHA256},
        ],
    )
    @pytest.mark.parametrize("announced", [True, False])
    async def test_other_bytes_than_promised_are_refused_and_not_kept(
        self, server: RawServer, fetcher: Fetcher, tmp_path: Path, source: dict[str, object], announced: bool
    ) -> None:
        uri = server.serve("/clip", whole(CLIP) if announced else raw(b"HTTP/1.0 200 OK\r\n\r\n" + CLIP))
        error = await failure(fetcher, Source.model_validate({"uri": uri} | source))
        assert (error.code, error.retryable) == (ErrorCode.CHECKSUM_MISMATCH, False)
        assert cached(tmp_path) == []

    async def test_a_cached_clip_of_another_size_than_promised_is_refused_and_stays(
        self, server: RawServer, fetcher: Fetcher, tmp_path: Path
    ) -> None:
        uri = server.serve("/clip", whole(CLIP))
        await fetched(fetcher, Source(uri=uri, sha256=SHA256))
        error = await failure(fetcher, Source(uri=uri, sha256=SHA256, size_bytes=1))
        assert error.code is ErrorCode.CHECKSUM_MISMATCH
        assert cached(tmp_path) == [SHA256]


class TestForgery:
    """Links that would have us ask for what the producer cannot reach."""

    @pytest.mark.parametrize(
        "uri",
        [
            "http://169.254.169.254/latest/meta-data/",
            "http://[::1]:{port}/clip",
            "http://[::ffff:169.254.169.254]/",
            "http://127.0.0.2:{port}/clip",
            "http://10.0.0.1/clip",
            "http://2130706433:{port}/clip",
            "http://127.1:{port}/clip",
            "http://user:password@127.0.0.1:{port}/clip",
            "http://127.0.0.1:22/",
            "gopher://127.0.0.1:{port}/clip",
            "data:text/plain,clip",
        ],
    )
    async def test_a_link_to_our_inside_is_refused_unasked(self, server: RawServer, fetcher: Fetcher, uri: str) -> None:
        server.serve("/clip", whole(CLIP))
        error = await failure(fetcher, uri.format(port=server.port))
        assert (error.code, error.retryable) == (ErrorCode.FETCH_REFUSED, False)
        assert server.asked == []

    @pytest.mark.parametrize(
        "location",
        [
            "http://169.254.169.254/",
            "http://localhost:22/",
            "file:///etc/passwd",
            "s3://clips/a",
            "//[::1]/",
            "http://metadata.internal:{port}/",
            "http://user@127.0.0.1:{port}/clip",
            "http:\\\\127.0.0.1:{port}\\clip",
        ],
    )
    async def test_a_redirect_to_our_inside_is_refused(self, server: RawServer, tmp_path: Path, location: str) -> None:
        server.serve("/clip", whole(CLIP))
        lookup = answers({"metadata.internal": ["169.254.169.254"], "localhost": ["127.0.0.1"]})
        async with fetcher_for(tmp_path, port=server.port, lookup=lookup) as fetcher:
            error = await failure(fetcher, server.serve("/a", redirect(location.format(port=server.port))))
        assert error.code is ErrorCode.FETCH_REFUSED
        assert server.count("/clip") == 0

    async def test_redirects_in_a_circle_end(self, server: RawServer, fetcher: Fetcher) -> None:
        error = await failure(fetcher, server.serve("/a", redirect("/a")))
        assert error.code is ErrorCode.FETCH_REFUSED
        assert server.count("/a") == 4

    async def test_a_name_for_our_inside_is_refused(self, server: RawServer, tmp_path: Path) -> None:
        lookup = answers(
            {"good.example": ["10.0.0.1"], "six.example": ["fe80::1%1"], "mapped.example": ["::ffff:a00:1"]}
        )
        async with fetcher_for(tmp_path, port=server.port, lookup=lookup) as fetcher:
            for host in ("good.example", "six.example", "mapped.example"):
                error = await failure(fetcher, server.url("/clip", host=host))
                assert error.code is ErrorCode.FETCH_REFUSED
        assert server.asked == []

    async def test_a_name_that_changes_its_meaning_gains_nothing(self, server: RawServer, tmp_path: Path) -> None:
        server.serve("/clip", whole(CLIP))
        lookup = answers({"rebind.example": ["127.0.0.1", "169.254.169.254"]})
        async with fetcher_for(tmp_path, port=server.port, lookup=lookup) as fetcher:
            source = Source(uri=server.url("/clip", host="rebind.example"))
            assert await fetched(fetcher, source) == CLIP, "connected to the address that was checked"
            assert (await failure(fetcher, source)).code is ErrorCode.FETCH_REFUSED, "looked up and checked again"
        assert server.count("/clip") == 1

    async def test_a_cached_clip_does_not_forgive_its_link(self, server: RawServer, fetcher: Fetcher) -> None:
        await fetched(fetcher, Source(uri=server.serve("/clip", whole(CLIP)), sha256=SHA256))
        for uri in ("http://169.254.169.254/", "file:///etc/passwd", "s3://other/a"):
            assert (await failure(fetcher, Source(uri=uri, sha256=SHA256))).code is ErrorCode.FETCH_REFUSED


class TestEndings:
    async def test_a_cancelled_job_leaves_nothing(self, server: RawServer, fetcher: Fetcher, tmp_path: Path) -> None:
        before = open_descriptors()
        task = asyncio.create_task(fetched(fetcher, Source(uri=server.serve("/clip", dripping(5_000_000)))))
        await until(lambda: server.count("/clip") == 1)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await settled(fetcher)
        assert cached(tmp_path) == []
        await until(lambda: open_descriptors() <= before)

    async def test_one_cancelled_job_does_not_take_the_clip_from_another(
        self, server: RawServer, fetcher: Fetcher
    ) -> None:
        gate = asyncio.Event()

        async def later(writer: asyncio.StreamWriter) -> None:
            await gate.wait()
            await whole(CLIP)(writer)

        source = Source(uri=server.serve("/clip", later))
        first, second = (asyncio.create_task(fetched(fetcher, source)) for _ in range(2))
        await until(lambda: server.count("/clip") == 1)
        first.cancel()
        await asyncio.wait({first})
        gate.set()
        assert await second == CLIP
        assert server.count("/clip") == 1

    async def test_closing_ends_fetches_under_way_and_all_threads(self, server: RawServer, tmp_path: Path) -> None:
        before = open_descriptors()
        async with fetcher_for(tmp_path, port=server.port) as fetcher:
            source = Source(uri=server.serve("/clip", dripping(), host="localhost"))
            task = asyncio.create_task(failure(fetcher, source))
            await until(lambda: server.count("/clip") == 1)
        error = await task
        assert (error.code, error.retryable) == (ErrorCode.FETCH_FAILED, True)
        assert cached(tmp_path) == []
        await until(lambda: not any(thread.name.startswith("fetch-") for thread in threading.enumerate()))
        await until(lambda: open_descriptors() <= before)

    async def test_a_cache_that_cannot_be_used_does_not_stop_the_service(
        self, server: RawServer, tmp_path: Path
    ) -> None:
        (tmp_path / "clips").write_bytes(b"in the way")
        source = Source(uri=server.serve("/clip", whole(CLIP)), sha256=SHA256)
        async with fetcher_for(tmp_path, port=server.port) as fetcher:
            assert [await fetched(fetcher, source) for _ in range(2)] == [CLIP] * 2

    async def test_a_full_disk_does_not_stop_the_service(self, server: RawServer, full_disk: Path) -> None:
        source = Source(uri=server.serve("/clip", whole(CLIP)), sha256=SHA256)
        async with fetcher_for(full_disk, port=server.port) as fetcher:
            assert [await fetched(fetcher, source) for _ in range(2)] == [CLIP] * 2
        assert cached(full_disk) == []

    async def test_many_clips_at_once_stay_within_the_cache(self, server: RawServer, tmp_path: Path) -> None:
        clips = [bytes([number]) * 100_000 for number in range(30)]
        sources = [
            Source(uri=server.serve(f"/{number}", whole(clip)), sha256=hashlib.sha256(clip).hexdigest())
            for number, clip in enumerate(clips)
        ]
        async with (
            fetcher_for(tmp_path, port=server.port, fetch_cache_bytes=500_000) as one,
            fetcher_for(tmp_path, port=server.port, fetch_cache_bytes=500_000) as two,
        ):
            pairs = [(fetcher, source) for source in sources for fetcher in (one, two)]
            assert await asyncio.gather(*(fetched(*pair) for pair in pairs)) == [clip for clip in clips for _ in "12"]
        assert 1 <= len(cached(tmp_path)) <= 5


async def settled(fetcher: Fetcher) -> None:
    """Wait until fetches that nobody waits for any more have ended."""
    await until(lambda: not fetcher._tasks)


async def until(condition) -> None:
    end_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.01)

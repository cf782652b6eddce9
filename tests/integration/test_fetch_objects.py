"""Fetching from a real S3 server. It is versitygw: ``VERSITYGW``, build/bin, or the search path say where."""

import asyncio
import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from pipeline.fetch.fetcher import Fetcher
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, MediaError
from schemas.job import Source
from tests.conftest import REPO
from tests.fetching import cached, dead, fetcher_for, raw_server, redirect, whole

CLIP = b"an object" * 300_000  # 2.7 MB
SHA256 = hashlib.sha256(CLIP).hexdigest()
ODD_KEY = "new clips/ü %41#?+&'~.mp4"


def versitygw() -> str | None:
    built = REPO / "build" / "bin" / "versitygw"
    return os.environ.get("VERSITYGW") or (str(built) if built.is_file() else shutil.which("versitygw"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a store with two buckets, of which the worker may read one."""
    program = versitygw()
    if program is None:
        pytest.skip("no versitygw: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0, or set VERSITYGW")
    folder = tmp_path_factory.mktemp("store")
    for name in ("clips/plain.mp4", f"clips/{ODD_KEY}", "private/plain.mp4"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(CLIP)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = subprocess.Popen(
        [program, "--port", address, "posix", str(folder)],
        env={"ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret-key", "PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder.parent,
    )
    try:
        asyncio.run(accepting(address))
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


async def accepting(address: str) -> None:
    host, _, port = address.partition(":")
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def fetcher_of(folder: Path, endpoint: str, *, secret: str = "secret-key"):
    return fetcher_for(
        folder,
        s3_endpoint=endpoint,
        s3_buckets=("clips", "missing"),
        s3_access_key_id=SecretStr("key"),
        s3_secret_access_key=SecretStr(secret),
    )


@pytest.fixture
async def fetcher(store: str, tmp_path: Path) -> AsyncIterator[Fetcher]:
    async with fetcher_of(tmp_path, store) as fetcher:
        yield fetcher


async def fetched(fetcher: Fetcher, source: Source, *, within_s: float = 10) -> bytes:
    async with fetcher.fetch(source, deadline=Deadline.after(within_s)) as path:
        return path.read_bytes()


async def failure(fetcher: Fetcher, uri: str, *, within_s: float = 10) -> MediaError:
    with pytest.raises(MediaError) as caught:
        await fetched(fetcher, Source(uri=uri), within_s=within_s)
    assert "secret" not in caught.value.message
    assert "127.0.0.1" not in caught.value.message
    return caught.value


@pytest.mark.parametrize("key", ["plain.mp4", ODD_KEY])
async def test_an_object_arrives_whole(fetcher: Fetcher, tmp_path: Path, key: str) -> None:
    assert await fetched(fetcher, Source(uri=f"s3://clips/{key}")) == CLIP
    assert await fetched(fetcher, Source(uri=f"s3://clips/{key}", sha256=SHA256)) == CLIP
    assert cached(tmp_path) == [SHA256]


async def test_an_object_that_is_not_there_is_not_found(fetcher: Fetcher) -> None:
    for uri in ("s3://clips/nothing.mp4", "s3://missing/plain.mp4"):
        assert (await failure(fetcher, uri)).code is ErrorCode.NOT_FOUND


async def test_a_bucket_that_was_not_named_is_refused_whatever_our_keys_open(fetcher: Fetcher) -> None:
    for uri in ("s3://private/plain.mp4", "s3://clips/../private/plain.mp4"):
        assert (await failure(fetcher, uri)).code is ErrorCode.FETCH_REFUSED


async def test_keys_that_are_wrong_are_no_reason_to_try_again(store: str, tmp_path: Path) -> None:
    async with fetcher_of(tmp_path, store, secret="wrong") as fetcher:
        error = await failure(fetcher, "s3://clips/plain.mp4")
    assert (error.code, error.retryable) == (ErrorCode.FETCH_FAILED, False)


async def test_a_store_that_hangs_costs_no_more_than_the_deadline(tmp_path: Path) -> None:
    async with raw_server() as server, fetcher_of(tmp_path, server.url("")) as fetcher:
        server.serve_all(dead)
        error = await failure(fetcher, "s3://clips/plain.mp4", within_s=0.15)
    assert (error.code, error.retryable) == (ErrorCode.FETCH_TIMED_OUT, True)


async def test_a_store_that_is_down_or_overloaded_may_be_tried_again(tmp_path: Path) -> None:
    async with raw_server() as server, fetcher_of(tmp_path, server.url("")) as fetcher:
        server.serve_all(whole(b"<Error/>", status="503 Slow Down"))
        errors = [await failure(fetcher, "s3://clips/plain.mp4")]
    async with fetcher_of(tmp_path, "http://127.0.0.1:1") as fetcher:
        errors.append(await failure(fetcher, "s3://clips/plain.mp4"))
    assert {(error.code, error.retryable) for error in errors} == {(ErrorCode.FETCH_FAILED, True)}


async def test_a_store_cannot_send_us_elsewhere(tmp_path: Path) -> None:
    async with raw_server() as server, fetcher_of(tmp_path, server.url("")) as fetcher:
        server.serve_all(redirect("http://169.254.169.254/"))
        assert (await failure(fetcher, "s3://clips/plain.mp4")).code is ErrorCode.FETCH_REFUSED

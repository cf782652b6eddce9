"""Weights from a web server, also from bad ones."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.weights.errors import ChecksumMismatch, FetchFailed
from pipeline.weights.pull import Puller
from pipeline.weights.sources import FolderSource, WebSource, source_for
from pipeline.weights.store import WeightStore
from pipeline.weights.web import download

from .conftest import EAR, EYE, Recorder

DATA = bytes(range(256)) * 64


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files``; may drop the line after ``drop_after`` bytes, or not know of ranges."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.ranges: list[str | None] = []
        self.drop_after: int | None = None
        self.knows_ranges = True
        self.fails = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.ranges.append(self.headers["Range"])
        content = self.server.files.get(self.path)
        if self.server.fails:
            self.server.fails -= 1
            self.send_error(503)
        elif content is None:
            self.send_error(404)
        else:
            self.send(content)

    def send(self, content: bytes) -> None:
        start = int((self.headers["Range"] or "bytes=0-")[6:-1]) if self.server.knows_ranges else 0
        if start >= len(content) > 0:
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:][: self.server.drop_after])

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(
    server: Server, target: Path, *, expected_bytes: int | None = len(DATA), cap_bytes: int = len(DATA)
) -> list[int]:
    """Download /data and return the running counts."""
    counts: list[int] = []
    download(
        f"{server.url}/data",
        target,
        cap_bytes=cap_bytes,
        expected_bytes=expected_bytes,
        on_bytes=counts.append,
        pause_s=0.001,
    )
    return counts


def test_a_web_server_fills_the_store(store: WeightStore, server: Server, progress: Recorder) -> None:
    server.files = {f"/w/ear/{name}": data for name, data in EAR.items()} | {"/w/eye/eye.onnx": EYE["eye.onnx"]}
    Puller(store, source=WebSource(f"{server.url}/w/")).pull(list(store.catalog), progress)
    assert store.missing() == ()
    assert progress.done["ear"][-1] == 24


def test_a_wrong_file_from_the_web_is_refused_and_removed(
    store: WeightStore, server: Server, progress: Recorder
) -> None:
    server.files = {"/eye/eye.onnx": b"EYE" * 1000}
    with pytest.raises(ChecksumMismatch):
        Puller(store, source=WebSource(server.url)).pull([store.catalog.entry("eye")], progress)
    assert not list(store.root.rglob("*.onnx*"))


def test_a_download_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.files = {"/data": DATA}
    (tmp_path / "data").write_bytes(DATA[:1000])
    counts = get(server, tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == DATA
    assert server.ranges == ["bytes=1000-"]
    assert counts[-1] == len(DATA)


def test_a_finished_download_asks_nobody(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(DATA)
    get(server, tmp_path / "data")
    assert server.ranges == []


@pytest.mark.parametrize("expected_bytes", [len(DATA), None])
def test_a_dropped_line_is_taken_up_again(server: Server, tmp_path: Path, expected_bytes: int | None) -> None:
    server.files, server.drop_after = {"/data": DATA}, 3000
    get(server, tmp_path / "data", expected_bytes=expected_bytes)
    assert (tmp_path / "data").read_bytes() == DATA
    assert len(server.ranges) == 6, "3000 of 16384 bytes at a time, so long as there is progress"


def test_a_server_that_knows_no_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.files, server.knows_ranges = {"/data": DATA}, False
    (tmp_path / "data").write_bytes(b"x" * 1000)
    get(server, tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == DATA


def test_what_is_no_beginning_of_the_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    server.files = {"/data": DATA}
    (tmp_path / "data").write_bytes(bytes(len(DATA) + 1))
    get(server, tmp_path / "data", expected_bytes=None, cap_bytes=1 << 20)
    assert (tmp_path / "data").read_bytes() == DATA


def test_a_tired_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.files, server.fails = {"/data": DATA}, 2
    get(server, tmp_path / "data")
    assert (tmp_path / "data").read_bytes() == DATA


def test_a_dead_server_is_given_up(server: Server, tmp_path: Path) -> None:
    server.fails = 1000
    with pytest.raises(FetchFailed, match="503") as raised:
        get(server, tmp_path / "data")
    assert raised.value.retryable
    assert len(server.ranges) == 5


def test_a_refusal_is_not_repeated(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="404"):
        get(server, tmp_path / "data")
    assert len(server.ranges) == 1


def test_a_flood_is_cut_off(server: Server, tmp_path: Path) -> None:
    server.files = {"/data": DATA + b"more"}
    with pytest.raises(FetchFailed, match="more than"):
        get(server, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_nobody_listening_is_an_error_that_may_pass(tmp_path: Path) -> None:
    with Server() as server:
        pass
    with pytest.raises(FetchFailed) as raised:
        get(server, tmp_path / "data")
    assert raised.value.retryable


@pytest.mark.parametrize("url", ["file:///etc", "ftp://host/w", "http://", "s3://bucket/w"])
def test_only_http_is_a_web_address(url: str, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match=r"folder or an http\(s\) URL"):
        source_for(url, downloads=tmp_path)


@pytest.mark.parametrize(
    "url", ["http://[", "http://host:port/w", "http://host/w w", "http://host/wägen", "http://host/\n"]
)
def test_a_crooked_address_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed):
        source_for(url, downloads=tmp_path)


def test_a_password_in_the_address_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed) as raised:
        source_for("https://me:secret@host.example/w", downloads=tmp_path)
    assert "secret" not in str(raised.value)


def test_a_setting_names_a_folder_or_says_it_is_none(tmp_path: Path) -> None:
    assert isinstance(source_for(str(tmp_path), downloads=tmp_path), FolderSource)
    with pytest.raises(FetchFailed, match="is not a folder"):
        source_for(str(tmp_path / "none"), downloads=tmp_path)

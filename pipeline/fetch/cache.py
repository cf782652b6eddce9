"""Clips on disk, by their sha256, shared by all workers of a machine.

Files appear whole, by renaming, and are read through descriptors, so that workers need no locks: who has a clip open
keeps it when another one evicts it. Nothing is synced to the disk: a hit is hashed again, so a file that a power cut
has hollowed out is found out. A file not yet whole is locked by its writer; what is not locked when a worker starts was
left behind by one that died.
"""

import fcntl
import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.fetch.open_clip import OpenClip, Stopped, open_regular
from schemas.errors import MediaError

_PARTIAL: Final = ".partial-"
_WRITTEN_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

_log = logging.getLogger(__name__)


class PartialFile(NamedTuple):
    """A file being written: ``descriptor`` is open for reading and writing."""

    name: str
    descriptor: int


class ClipCache:
    """A folder of at most ``max_bytes`` (and what is being written just now). Blocking: call it from a thread.

    A folder that cannot be used (another user's, writable for others, a read-only disk) is as good as an empty one:
    ``find`` finds nothing and ``create`` raises ``OSError``.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._path = folder
        self._max_bytes = max_bytes
        self._folder = -1

    def open(self) -> None:
        """Make the folder if need be, and remove what dead workers left. Never raises for a folder that is unusable."""
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = _open_own_folder(self._path)
            self._sweep()
        except OSError as error:
            _log.warning("clips are not cached: %s cannot be used: %s", self._path, error)

    def close(self) -> None:
        """Let go of the folder."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def takes(self, size_bytes: int) -> bool:
        """Whether a clip of ``size_bytes`` may be kept."""
        return size_bytes <= self._max_bytes

    def find(self, sha256: str, stopped: Stopped) -> OpenClip | None:
        """Return the clip with this hash, checked, if it is there. Raises ``StoppedEarly``."""
        try:
            self._require_usable()
            clip = open_regular(sha256, self._folder)
        except (OSError, MediaError):
            return None
        try:
            if clip.sha256(stopped) == sha256:
                clip.used_now()
                return clip
        except OSError:
            _log.warning("a cached clip cannot be read", exc_info=True)
        except BaseException:
            clip.close()
            raise
        clip.close()
        self.remove(sha256)
        return None

    def create(self) -> PartialFile:
        """Begin a file. Raises ``OSError``."""
        self._require_usable()
        name = _PARTIAL + secrets.token_hex(8)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=self._folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return PartialFile(name, descriptor)

    def keep(self, name: str, sha256: str) -> None:
        """Give a finished file its place, and remove the clips unused for longest. Raises ``OSError``."""
        os.chmod(name, 0o400, dir_fd=self._folder)
        os.rename(name, sha256, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._evict()

    def remove(self, name: str) -> None:
        """Remove a file if it is still there."""
        with suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    def _require_usable(self) -> None:
        if self._folder < 0:
            raise OSError("the folder for clips cannot be used")

    def _evict(self) -> None:
        # By name where times are the same: whoever evicts at the same time must take the same ones, not others besides.
        clips = sorted(self._clips(), key=lambda clip: (clip.used_ns, clip.name))
        excess_bytes = sum(clip.size_bytes for clip in clips) - self._max_bytes
        for clip in clips:
            if excess_bytes <= 0:
                return
            self.remove(clip.name)
            excess_bytes -= clip.size_bytes

    def _clips(self) -> list["_Kept"]:
        kept = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another worker evicts, too
                    status = entry.stat(follow_symlinks=False)
                    if not entry.name.startswith(_PARTIAL):
                        kept.append(_Kept(entry.name, status.st_size, status.st_mtime_ns))
        return kept

    def _sweep(self) -> None:
        for name in os.listdir(self._folder):  # noqa: PTH208
            if name.startswith(_PARTIAL) and not self._is_being_written(name):
                self.remove(name)
        self._evict()

    def _is_being_written(self, name: str) -> bool:
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False


class _Kept(NamedTuple):
    name: str
    size_bytes: int
    used_ns: int


def _open_own_folder(path: Path) -> int:
    """Return a descriptor of a folder in which nobody else can change anything. Raises ``OSError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & _WRITTEN_BY_OTHERS:
        os.close(descriptor)
        raise PermissionError("others can write to it")
    return descriptor

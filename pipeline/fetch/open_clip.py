"""An open regular file that stands for a clip, whatever its name comes to mean meanwhile."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from pipeline.fetch.errors import failed, not_as_promised, refused, too_large
from schemas.errors import ErrorCode, MediaError
from schemas.job import Source

_CHUNK_BYTES: Final = 1 << 20

Stopped = Callable[[], bool]
"""Whether nobody waits for the work any more. Asked from threads."""


class StoppedEarly(Exception):
    """Raised in a thread whose work nobody waits for. Never leaves this package."""


class _Look(NamedTuple):
    size_bytes: int
    modified_ns: int
    changed_ns: int


class OpenClip:
    """Owns a descriptor. Its ``path`` leads to the very inode, opened anew, from any process of this user.

    No name can be put in place of the file that was checked, and a cache may remove the name meanwhile. ``foreign``:
    somebody else may write to it; ``require_unchanged`` then tells. ``on_close`` is called once.
    """

    def __init__(self, descriptor: int, *, foreign: bool = False, on_close: Callable[[], None] = lambda: None) -> None:
        """Take over ``descriptor``."""
        self._descriptor = descriptor
        self._on_close = on_close
        self._look = _look(descriptor) if foreign else None
        self.size_bytes = os.fstat(descriptor).st_size

    @property
    def path(self) -> Path:
        """Where it can be read until ``close``: a link that the kernel resolves."""
        return Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")

    def sha256(self, stopped: Stopped) -> str:
        """Read all of it. Raises ``StoppedEarly``."""
        digest = hashlib.sha256()
        position = 0
        while chunk := os.pread(self._descriptor, _CHUNK_BYTES, position):
            if stopped():
                raise StoppedEarly
            digest.update(chunk)
            position += len(chunk)
        return digest.hexdigest()

    def used_now(self) -> None:
        """Write down the time, for a cache that keeps what was used last."""
        os.utime(self._descriptor)

    def require_unchanged(self) -> None:
        """Raise a retryable ``FetchError`` FETCH_FAILED when a foreign file was written to since it was opened."""
        if self._look is not None and _look(self._descriptor) != self._look:
            raise failed("the file changed while it was being read", retryable=True)

    def close(self) -> None:
        """Let go of it; harmless a second time."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_size(source: Source, size_bytes: int, *, max_bytes: int) -> None:
    """Raise ``FetchError`` TOO_LARGE, or CHECKSUM_MISMATCH unless ``source`` speaks of ``size_bytes`` or of no size."""
    if size_bytes > max_bytes:
        raise too_large(max_bytes)
    if source.size_bytes is not None and source.size_bytes != size_bytes:
        raise not_as_promised("the clip has another size than the job says")


def check_hash(source: Source, sha256: str) -> None:
    """Raise ``FetchError`` CHECKSUM_MISMATCH unless ``source`` speaks of ``sha256``, or of no hash."""
    if source.sha256 is not None and source.sha256 != sha256:
        raise not_as_promised("the clip's sha256 is not the one that the job names")


def open_below(root: bytes, names: tuple[bytes, ...]) -> OpenClip:
    """Open the foreign regular file that ``names`` lead to from ``root``, through no link, and no file that is none.

    Each folder is opened from the one before it, so nobody can turn one into a link in between. ``root`` itself is the
    installation's and may be a link. Raises ``MediaError`` FETCH_REFUSED, NOT_FOUND, NOT_A_REGULAR_FILE, ...
    """
    try:
        folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names[:-1]:
                deeper = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                os.close(folder)
                folder = deeper
            return open_regular(names[-1], folder, foreign=True)
        finally:
            os.close(folder)
    except OSError as error:
        raise _unopened(error) from None


def open_regular(name: bytes | str, folder: int, *, foreign: bool = False) -> OpenClip:
    """Open the regular file ``name`` in the open folder ``folder``. Raises ``MediaError`` and ``OSError``."""
    # Opening a pipe may block and opening a device may rouse it. O_PATH does neither, and pins what it looked at.
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISLNK(mode):
            raise refused("a symbolic link")
        if not stat.S_ISREG(mode):
            raise MediaError(ErrorCode.NOT_A_REGULAR_FILE, "a folder, device, pipe or socket, not a file")
        return OpenClip(os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC), foreign=foreign)
    finally:
        os.close(handle)


def _look(descriptor: int) -> _Look:
    status = os.fstat(descriptor)
    return _Look(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _unopened(error: OSError) -> MediaError:
    if error.errno == errno.ELOOP:
        return refused("a symbolic link")
    if error.errno == errno.ENOENT:
        return MediaError(ErrorCode.NOT_FOUND, "no such file")
    if error.errno == errno.ENOTDIR:  # also how O_DIRECTORY refuses a link
        return MediaError(ErrorCode.NOT_FOUND, "no such file, or a symbolic link on the way to it")
    if error.errno == errno.ENAMETOOLONG:
        return MediaError(ErrorCode.BAD_NAME, "the name is too long")
    permanent = error.errno in (errno.EACCES, errno.EPERM)
    return MediaError(ErrorCode.NOT_READABLE, os.strerror(error.errno or errno.EIO), retryable=not permanent)

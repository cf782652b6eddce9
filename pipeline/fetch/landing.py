"""Where the bytes of one clip land while they arrive: on disk, or in memory when the disk has no room."""

import errno
import hashlib
import logging
import os
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from pipeline.fetch.cache import ClipCache, PartialFile
from pipeline.fetch.errors import failed
from pipeline.fetch.memory import MemoryBudget
from pipeline.fetch.open_clip import OpenClip

_COPY_BYTES: Final = 1 << 20
_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO, errno.ENOMEM))

_log = logging.getLogger(__name__)


class Landing:
    """Bytes, appended one piece at a time and hashed on the way. Blocking: call it from a thread, once at a time.

    As a context manager it removes what was not finished.
    """

    def __init__(self, cache: ClipCache, memory: MemoryBudget) -> None:
        """Begin. Never raises for a disk that does not take a file."""
        self._cache = cache
        self._memory = memory
        self._taken_bytes = 0
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        self._partial: PartialFile | None = None
        try:
            self._partial = cache.create()
            self._descriptor = self._partial.descriptor
        except OSError:
            self._descriptor = _in_memory()

    @property
    def sha256(self) -> str:
        """The hash of what has landed so far."""
        return self._digest.hexdigest()

    def append(self, data: bytes) -> None:
        """Add ``data``. Raises a retryable ``FetchError`` FETCH_FAILED when neither disk nor memory takes it."""
        try:
            self._write(data)
        except OSError as error:
            if self._partial is None or error.errno not in _NO_ROOM:
                raise _no_room() from error
            _log.warning("a clip goes to memory: the disk does not take it: %s", error)
            self._move_to_memory()
            self._write(data)
        self._digest.update(data)
        self.size_bytes += len(data)

    def finish(self, *, keep: bool) -> OpenClip:
        """Return the clip, which nobody can write to any more; let the cache have it if ``keep``."""
        taken = self._taken_bytes
        clip = _read_only(self._descriptor, on_close=lambda: self._memory.give_back(taken))
        self._taken_bytes = 0
        partial, self._partial = self._partial, None
        if partial is not None:
            self._settle(partial, keep=keep)
        self.close()
        return clip

    def close(self) -> None:
        """Remove what was not finished; harmless a second time."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        if self._partial is not None:
            self._cache.remove(self._partial.name)
            self._partial = None
        self._memory.give_back(self._taken_bytes)
        self._taken_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _settle(self, partial: PartialFile, *, keep: bool) -> None:
        if keep and self._cache.takes(self.size_bytes):
            try:
                self._cache.keep(partial.name, self.sha256)
            except OSError:
                _log.warning("a clip cannot be kept", exc_info=True)
            else:
                return
        self._cache.remove(partial.name)

    def _write(self, data: bytes) -> None:
        if self._partial is None:
            self._take(len(data))
        view = memoryview(data)
        done = 0
        while done < len(view):
            done += os.pwrite(self._descriptor, view[done:], self.size_bytes + done)

    def _move_to_memory(self) -> None:
        on_disk, self._descriptor = self._descriptor, _in_memory()
        try:
            self._take(self.size_bytes)
            for position in range(0, self.size_bytes, _COPY_BYTES):
                data = os.pread(on_disk, min(_COPY_BYTES, self.size_bytes - position), position)
                os.pwrite(self._descriptor, data, position)
        finally:
            os.close(on_disk)
            assert self._partial is not None  # noqa: S101  (checked by append)
            self._cache.remove(self._partial.name)
            self._partial = None

    def _take(self, count_bytes: int) -> None:
        if not self._memory.take(count_bytes):
            raise _no_room()
        self._taken_bytes += count_bytes


def _in_memory() -> int:
    return os.memfd_create("clip", os.MFD_CLOEXEC)


def _read_only(descriptor: int, *, on_close: Callable[[], None]) -> OpenClip:
    return OpenClip(os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC), on_close=on_close)


def _no_room() -> Exception:
    return failed("there is no room for the clip", retryable=True)

"""Opening a file that may be hostile.

The path is opened here, once, without blocking and only if it is a regular file. FFmpeg gets an object with ``read``
and ``seek`` and neither a name nor a protocol: it cannot reach another file or the network, whatever the bytes say.
"""

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import Any, NoReturn

import av
from av.container import InputContainer

from schemas.errors import ErrorCode, MediaError
from stages.media.limits import MediaLimits
from stages.media.sniff import HEAD_BYTES, Kind, refuse_dangerous, sniff, unreadable

DEMUXERS = (
    "mov,matroska,mpegts,mpeg,avi,flv,ogg,asf,mxf,gif,apng,nut,ivf,dv,mjpeg,yuv4mpegpipe,"
    "png_pipe,jpeg_pipe,webp_pipe,bmp_pipe,tiff_pipe,"
    "wav,w64,flac,mp3,aac,ac3,eac3,aiff,au,caf,amr,wv"
)
"""Everything FFmpeg may try. No demuxer here opens other files: no hls, dash, concat, sdp, rtsp, image2, lavfi."""

_GUESSED = frozenset({"mpeg", "mjpeg", "mp3", "aac", "ac3", "eac3", "dv"})
"""Formats that FFmpeg guesses from a weak pattern: believed only if the first bytes agree."""

_BUFFER_BYTES = 64 * 1024


class LocalFile:
    """An open regular file: all that FFmpeg ever sees of it. ``size_bytes`` is its size when it was opened."""

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self._descriptor = descriptor
        self._position = 0
        self.size_bytes = size_bytes

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes and move on."""
        data = os.pread(self._descriptor, count, self._position)
        self._position += len(data)
        return data

    def read_at(self, position: int, count: int) -> bytes:
        """Return up to ``count`` bytes at ``position``. Does not move."""
        return os.pread(self._descriptor, count, position) if 0 <= position < self.size_bytes else b""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move, and return the new position. Raises ``OSError`` for one before the start."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size_bytes}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "before the start of the file")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def clone(self) -> "LocalFile":
        """Return the same open file with a position of its own, at the start."""
        return LocalFile(os.dup(self._descriptor), self.size_bytes)

    def close(self) -> None:
        """Close the file; harmless a second time."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def open_file(path: bytes, limits: MediaLimits) -> LocalFile:
    """Open ``path`` if it is a regular file of bearable size. Follows symbolic links. Never blocks on a pipe.

    Raises ``MediaError`` with NOT_FOUND, NOT_READABLE, NOT_A_REGULAR_FILE, BAD_NAME, EMPTY_FILE or TOO_LARGE.
    """
    try:
        _require_regular(os.stat(path))  # noqa: PTH116  (bytes) before opening, since that alone may rouse a device
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise _unopened(error) from None
    except ValueError:
        raise MediaError(ErrorCode.BAD_NAME, "the name holds a NUL byte") from None
    try:
        status = os.fstat(descriptor)
        _require_regular(status)  # again: the name may have changed hands in between
        _require_size(status.st_size, limits.max_bytes)
    except MediaError:
        os.close(descriptor)
        raise
    return LocalFile(descriptor, status.st_size)


def open_container(file: LocalFile, limits: MediaLimits) -> InputContainer:
    """Let FFmpeg open ``file`` from its start. Decodes nothing.

    Raises ``MediaError`` with PLAYLIST_REFUSED, UNSUPPORTED_FORMAT, NOT_MEDIA or DAMAGED_CONTAINER.
    """
    head = file.read_at(0, HEAD_BYTES)
    refuse_dangerous(head)
    file.seek(0)
    try:
        container = av.open(
            file,
            "r",
            # For FFmpeg's own look at the streams: picture sizes are bounded, and nothing is decoded (a look at an 8K
            # picture would cost 70 ms, and the first picture that we decode tells the same).
            options={"max_pixels": str(limits.max_pixels), "threads": "1", "skip_frame": "all"},
            container_options={"format_whitelist": DEMUXERS, "protocol_whitelist": ""},
            metadata_errors="replace",
            buffer_size=_BUFFER_BYTES,
            io_open=_no_other_file,
        )
    except (av.FFmpegError, ValueError):
        raise unreadable(head) from None
    except OSError as error:  # raised by our own read, handed through by FFmpeg
        raise _unopened(error) from None
    if not _GUESSED.isdisjoint(container.format.name.split(",")) and sniff(head).kind is Kind.UNKNOWN:
        container.close()
        raise unreadable(head)
    if not 0 < len(container.streams) <= limits.max_streams:
        container.close()
        raise MediaError(ErrorCode.DAMAGED_CONTAINER, f"holds no stream, or more than {limits.max_streams}")
    return container


@dataclass(slots=True)
class OpenedMedia:
    """A file and FFmpeg's view of it. Owns both; ``reopen`` starts FFmpeg's view over."""

    file: LocalFile
    limits: MediaLimits
    container: InputContainer = field(init=False)

    def __post_init__(self) -> None:
        self.container = open_container(self.file, self.limits)

    def reopen(self) -> None:
        """Replace ``container`` by a fresh one at the start of the file. Streams keep their indices."""
        self.container.close()
        self.container = open_container(self.file, self.limits)

    def close(self) -> None:
        """Close both."""
        self.container.close()
        self.file.close()


def open_media(path: bytes, limits: MediaLimits) -> OpenedMedia:
    """Open ``path``. Raises what ``open_file`` and ``open_container`` raise."""
    file = open_file(path, limits)
    try:
        return OpenedMedia(file, limits)
    except BaseException:
        file.close()
        raise


def _no_other_file(url: str, flags: int, options: dict[str, Any]) -> NoReturn:  # noqa: ARG001  (FFmpeg's signature)
    raise MediaError(ErrorCode.PLAYLIST_REFUSED, "the file tries to open another file or address")


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise MediaError(ErrorCode.NOT_A_REGULAR_FILE, "a folder, device, pipe or socket, not a file")


def _require_size(size_bytes: int, max_bytes: int) -> None:
    if size_bytes == 0:
        raise MediaError(ErrorCode.EMPTY_FILE, "the file has 0 bytes")
    if size_bytes > max_bytes:
        raise MediaError(ErrorCode.TOO_LARGE, f"{size_bytes} bytes are more than the allowed {max_bytes}")


def _unopened(error: OSError) -> MediaError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return MediaError(ErrorCode.NOT_FOUND, "no such file, or a link that leads nowhere")
    if error.errno == errno.ENAMETOOLONG:
        return MediaError(ErrorCode.BAD_NAME, "the name is too long")
    if error.errno == errno.ENXIO:
        return MediaError(ErrorCode.NOT_A_REGULAR_FILE, "a pipe or socket, not a file")
    permanent = error.errno in (errno.EACCES, errno.EPERM)
    return MediaError(ErrorCode.NOT_READABLE, os.strerror(error.errno or errno.EIO), retryable=not permanent)

"""What a container says about itself outside FFmpeg's view: whether it was cut short, and which tracks are encrypted.

Only headers are read, by position; nothing is allocated by a size that the file claims.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from stages.media.opening import LocalFile

_MAX_BOXES = 20_000
_PARENTS = frozenset({b"trak", b"mdia", b"minf", b"stbl"})
_MEDIA_BOXES = frozenset({b"mdat", b"moof", b"moov"})
_ENCRYPTED_ENTRIES = frozenset({b"encv", b"enca", b"drmi", b"drms", b"drmt"})
_SEGMENT_ID = 0x18538067
_FLV_TAGS = (8, 9, 18)
_TS_PACKET_BYTES = 188


@dataclass(frozen=True, slots=True)
class Structure:
    """What the headers tell.

    ``cut``: whether the file ends before its structure does (None: its structure cannot tell).
    ``encrypted_tracks``: track ids of an MP4 whose samples are encrypted. ``scrambled``: a scrambled transport stream.
    ``declared_s``: the length that an MP4 claims, which FFmpeg drops when it is absurd.
    """

    cut: bool | None = None
    encrypted_tracks: frozenset[int] = frozenset()
    declared_s: float | None = None
    scrambled: bool = False


def read_structure(file: LocalFile, container: str) -> Structure:
    """Read what ``file``, of FFmpeg's format name ``container``, says about itself. Does not move the read position."""
    names = container.split(",")
    if "mov" in names:
        return _Mp4(file).structure()
    if "matroska" in names:
        return Structure(cut=_matroska_cut(file))
    if "avi" in names or "wav" in names:
        return Structure(cut=_riff_cut(file))
    if "flv" in names:
        return Structure(cut=_flv_cut(file))
    if "mpegts" in names:
        return Structure(scrambled=_is_scrambled(file))
    return Structure()


class _Box(NamedTuple):
    kind: bytes
    start: int
    end: int


class _Mp4:
    """Walks the boxes of one file. However they are nested, no more than ``_MAX_BOXES`` are looked at."""

    def __init__(self, file: LocalFile) -> None:
        self._file = file
        self._boxes_left = _MAX_BOXES

    def structure(self) -> Structure:
        size_bytes = self._file.size_bytes
        top = list(self._boxes(0, size_bytes))
        inner = [box for moov in top if moov.kind == b"moov" for box in self._boxes(moov.start, moov.end)]
        tracks = [self._encrypted_track(box) for box in inner if box.kind == b"trak"]
        claims = [_declared_s(self._file.read_at(box.start, 32)) for box in inner if box.kind == b"mvhd"]
        return Structure(
            cut=any(box.kind in _MEDIA_BOXES and box.end > size_bytes for box in top),
            encrypted_tracks=frozenset(track for track in tracks if track is not None),
            declared_s=max(claims, default=None),
        )

    def _boxes(self, start: int, end: int) -> Iterator[_Box]:
        """Yield the boxes between two positions; a box may claim to end beyond ``end``."""
        while start + 8 <= end and self._boxes_left > 0:
            self._boxes_left -= 1
            head = self._file.read_at(start, 16)
            if len(head) < 8:
                return
            size, kind = struct.unpack_from(">I4s", head)
            body = 8
            if size == 1 and len(head) == 16:  # a 64-bit size follows
                (size,) = struct.unpack_from(">Q", head, 8)
                body = 16
            size = size or end - start  # 0: up to the end
            if size < body:
                return
            yield _Box(kind, start + body, start + size)
            start += size

    def _leaves(self, parent: _Box, depth: int = 0) -> Iterator[_Box]:
        for box in self._boxes(parent.start, parent.end):
            if box.kind in _PARENTS and depth < len(_PARENTS):
                yield from self._leaves(box, depth + 1)
            else:
                yield box

    def _encrypted_track(self, trak: _Box) -> int | None:
        """Return the id of a track whose sample description is of an encrypted kind, else None."""
        track_id, encrypted = 0, False
        for box in self._leaves(trak):
            if box.kind == b"tkhd":
                track_id = _track_id(self._file.read_at(box.start, 24))
            elif box.kind == b"stsd":
                encrypted = any(entry.kind in _ENCRYPTED_ENTRIES for entry in self._boxes(box.start + 8, box.end))
        return track_id if encrypted else None


def _track_id(tkhd: bytes) -> int:
    """Track id: after version, flags and two times (of 4 bytes each in version 0, of 8 in version 1)."""
    at = 20 if tkhd[:1] == b"\x01" else 12
    return int.from_bytes(tkhd[at : at + 4], "big")


def _declared_s(mvhd: bytes) -> float:
    """Movie length: ticks a second, then ticks, after version, flags and two times."""
    version_1 = mvhd[:1] == b"\x01"
    at, width = (20, 8) if version_1 else (12, 4)
    rate, ticks = (int.from_bytes(mvhd[i:j], "big") for i, j in ((at, at + 4), (at + 4, at + 4 + width)))
    unknown = ticks == (1 << 8 * width) - 1
    return 0.0 if unknown or not rate else ticks / rate


def _matroska_cut(file: LocalFile) -> bool | None:
    """Whether the Segment claims more bytes than there are; None when it was written without a size (live)."""
    position = 0
    for _ in range(8):
        head = file.read_at(position, 12)
        ident, id_bytes = _ebml_number(head)
        size, size_bytes = _ebml_number(head[id_bytes:])
        if not id_bytes or not size_bytes:
            return None
        size &= (1 << 7 * size_bytes) - 1  # without the length marker
        body = position + id_bytes + size_bytes
        if ident == _SEGMENT_ID:
            unknown = size == (1 << 7 * size_bytes) - 1
            return None if unknown else body + size > file.size_bytes
        position = body + size
    return None


def _ebml_number(data: bytes) -> tuple[int, int]:
    """Decode an EBML number with its length marker: (value, bytes used); (0, 0) if there is none."""
    if not data or not data[0]:
        return 0, 0
    length = 9 - data[0].bit_length()
    return int.from_bytes(data[:length], "big"), length


def _riff_cut(file: LocalFile) -> bool | None:
    """Whether the RIFF chunk claims more bytes than there are; sizes of 0 and 2^32-1 are those of a live stream."""
    head = file.read_at(0, 8)
    size = int.from_bytes(head[4:8], "little")
    if head[:4] != b"RIFF" or size in (0, 0xFFFFFFFF):
        return None
    return size + 8 > file.size_bytes + 1  # the last chunk's padding byte is often left out


def _flv_cut(file: LocalFile) -> bool:
    """Whether the last tag is not whole: each tag is followed by its own size."""
    size = file.size_bytes
    last = int.from_bytes(file.read_at(size - 4, 4), "big")
    tag = file.read_at(size - 4 - last, 4) if 11 <= last <= size - 4 else b""
    return not (len(tag) == 4 and tag[0] in _FLV_TAGS and int.from_bytes(tag[1:4], "big") + 11 == last)


def _is_scrambled(file: LocalFile) -> bool:
    """Whether most of the first packets that carry a payload have their scrambling bits set."""
    head = file.read_at(0, 256 * _TS_PACKET_BYTES)
    starts = range(0, len(head) - 3, _TS_PACKET_BYTES)
    flags = [head[at + 3] for at in starts if head[at] == 0x47 and head[at + 3] & 0x10]
    return len(flags) > 8 and sum(flag & 0xC0 != 0 for flag in flags) > len(flags) // 2

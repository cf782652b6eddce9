"""What the first bytes of a file say it is. Pure.

FFmpeg decides by itself whether it can read a file. This module names what it must never see (playlists and scripts
that make it read other files or the network), and explains what it could not read.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from schemas.errors import ErrorCode, MediaError

HEAD_BYTES = 64 * 1024
"""How much of a file is looked at."""

_TEXT_BYTES = 8192


class Kind(StrEnum):
    """What a head of bytes is."""

    PLAYLIST = "playlist"
    UNSUPPORTED = "unsupported"
    CONTAINER = "container"
    UNKNOWN = "unknown"


class Sniffed(NamedTuple):
    """A kind and the name of the format."""

    kind: Kind
    name: str


# Lines that only a playlist or a script has, wherever they stand.
_TELLING_LINE = re.compile(
    r"""^[ \t]*(
        \#extm3u | \#ext-x- | \#extinf: | ffconcat[ ]version
      | \[playlist\] | \[reference\] | \[internetshortcut\] | rtsptext | asf[ ]https?:
      | c=in[ ]ip[46] | m=(audio|video)[ ]\d
      | file[ ]+".*"[ ]+(binary|motorola|aiff|wave|mp3|flac)[ \t]*$
      | \#[ ]vobsub[ ]index
    )""",
    re.MULTILINE | re.VERBOSE,
)
# Lines that make a playlist or a script if nothing but comments stands before them.
_FIRST_LINE = re.compile(r"(\s*#.*\n)*\s*(file\s+['\"]?\S|[a-z]{2,12}://\S+\s*$|v=0\s*$)", re.MULTILINE)
_PLAYLIST_TAG = re.compile(
    r"<\?wpl|<(\w+:)?(mpd|smoothstreamingmedia|playlist|asx|smil|wpl|compositionplaylist|assetmap)[\s>/]"
)
_SVG_TAG = re.compile(r"<(\w+:)?svg[\s>/]")


def _magic(*table: tuple[bytes, str]) -> tuple[tuple[re.Pattern[bytes], str], ...]:
    return tuple((re.compile(pattern, re.DOTALL), name) for pattern, name in table)


_UNSUPPORTED = _magic(
    (rb"....ftyp(hei[cxms]|hev[cxms]|mif1|msf1|miaf)", "HEIF"),
    (rb"%PDF-", "PDF"),
    (rb"[FCZ]WS[\x01-\x40]", "Flash"),
    (rb"\.RMF", "RealMedia"),
    (rb"MThd\x00", "MIDI"),
    (rb"8BPS\x00", "Photoshop"),
    (rb"\x00\x00\x00\x0cJXL |\xff\x0a", "JPEG XL"),
    (rb"\x00\x00\x00\x01(?![a-z]{4})[\x01-\x7f]|\x00\x00\x01\xb3", "raw video"),
)
_CONTAINERS = _magic(
    (rb"[\x00-\x1f]...(ftyp|moov|mdat|free|skip|wide|pnot|styp|moof|sidx|uuid)", "MP4 or QuickTime"),
    (rb"\x1a\x45\xdf\xa3", "Matroska"),
    (rb"RIFF....(AVI |WAVE|WEBP)", "RIFF"),
    (rb"RF64....WAVE|riff\x2e\x91\xcf\x11", "WAVE"),
    (rb"OggS", "Ogg"),
    (rb"FLV[\x00-\x05]", "FLV"),
    (rb"fLaC", "FLAC"),
    (rb"GIF8[79]a", "GIF"),
    (rb"\x89PNG", "PNG"),
    (rb"\xff\xd8\xff", "JPEG"),
    (rb"BM....\x00\x00\x00\x00", "BMP"),
    (rb"II\*\x00|MM\x00\*", "TIFF"),
    (rb"\x00\x00\x01\xba", "MPEG program stream"),
    (rb"\x06\x0e\x2b\x34\x02\x05\x01\x01", "MXF"),
    (rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "ASF"),
    (rb"FORM....AIF[FC]", "AIFF"),
    (rb"caff\x00", "CAF"),
    (rb"#!AMR", "AMR"),
    (rb"\.snd\x00", "AU"),
    (rb"wvpk", "WavPack"),
    (rb"YUV4MPEG2 ", "YUV4MPEG"),
    (rb"DKIF\x00", "IVF"),
    (rb"nut/multimedia container", "NUT"),
    (rb"\x0b\x77", "AC-3"),
    (rb"\x1f\x07\x00[\x3f\xbf]", "DV"),
    (rb"(?=\x47).(.{187}\x47){1,3}|.{4}\x47(.{191}\x47){1,3}", "MPEG transport stream"),
    (rb"\xff[\xe2-\xe7\xf2-\xff][\x00-\xef]|\xff[\xf0\xf1\xf8\xf9]", "MPEG audio"),
)
_WEBP_ANIMATION_FLAG = 0x02


def sniff(head: bytes) -> Sniffed:
    """Name what ``head``, the first bytes of a file, belongs to."""
    body = _without_id3(head)
    text = _text_kind(body)
    if text:
        return text
    if body[8:16] == b"WEBPVP8X" and len(body) > 20 and body[20] & _WEBP_ANIMATION_FLAG:
        return Sniffed(Kind.UNSUPPORTED, "animated WebP")
    for kind, table in ((Kind.UNSUPPORTED, _UNSUPPORTED), (Kind.CONTAINER, _CONTAINERS)):
        for pattern, name in table:
            if pattern.match(body):
                return Sniffed(kind, name)
    return Sniffed(Kind.CONTAINER, "MPEG audio") if body != head else Sniffed(Kind.UNKNOWN, "unknown")


def refuse_dangerous(head: bytes) -> None:
    """Raise ``MediaError`` for what FFmpeg must not, or need not, be given at all."""
    kind, name = sniff(head)
    if kind is Kind.PLAYLIST:
        raise MediaError(ErrorCode.PLAYLIST_REFUSED, f"a {name} names other files or addresses; send the media itself")
    if kind is Kind.UNSUPPORTED:
        raise MediaError(ErrorCode.UNSUPPORTED_FORMAT, f"{name} is not supported")


def unreadable(head: bytes) -> MediaError:
    """Return the error for a file that FFmpeg could not open."""
    kind, name = sniff(head)
    if kind is Kind.CONTAINER:
        return MediaError(ErrorCode.DAMAGED_CONTAINER, f"looks like {name}, but its structure cannot be read")
    return MediaError(ErrorCode.NOT_MEDIA, "no known media format")


def _without_id3(head: bytes) -> bytes:
    """Skip leading ID3v2 tags, as FFmpeg does before it looks for the format."""
    while head[:3] == b"ID3" and len(head) >= 10:
        size = (head[6] & 0x7F) << 21 | (head[7] & 0x7F) << 14 | (head[8] & 0x7F) << 7 | (head[9] & 0x7F)
        head = head[10 + size :]
    return head


def _text_kind(body: bytes) -> Sniffed | None:
    text = _as_text(body[:_TEXT_BYTES])
    if not text:
        return None
    if text[0] == "<" and _PLAYLIST_TAG.search(text):
        return Sniffed(Kind.PLAYLIST, "streaming manifest")
    if text[0] == "<" and _SVG_TAG.search(text):
        return Sniffed(Kind.UNSUPPORTED, "SVG")
    if _TELLING_LINE.search(text) or _FIRST_LINE.match(text):
        return Sniffed(Kind.PLAYLIST, "playlist or script")
    return None


def _as_text(body: bytes) -> str:
    """Return ``body`` in lower case without what may lead it (BOM, blanks, NULs); "" if it is not text.

    Eight-bit encodings are not told apart: everything looked for is ASCII.
    """
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = body.decode("utf-16", "replace")
    elif body[1:8:2] == bytes(4) and all(body[0:8:2]):
        text = body.decode("utf-16-le", "replace")
    elif body[0:8:2] == bytes(4) and all(body[1:8:2]):
        text = body.decode("utf-16-be", "replace")
    else:
        text = body.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    text = text.lstrip("\ufeff\0 \t\r\n\v\f").replace("\r\n", "\n").replace("\r", "\n").lower()
    start = text[:64]
    controls = sum(c < " " and c not in "\t\n\f" for c in start)
    return "" if controls > len(start) // 16 else text

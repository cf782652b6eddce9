import random

import pytest

from schemas.errors import ErrorCode, MediaError
from stages.media.sniff import Kind, refuse_dangerous, sniff, unreadable

HLS = "#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:4,\nhttp://127.0.0.1/segment.ts\n"
PLAYLISTS = {
    "HLS": HLS.encode(),
    "HLS with CRLF": HLS.replace("\n", "\r\n").encode(),
    "HLS behind blanks": b"\r\n \t\n" + HLS.encode(),
    "HLS behind NULs": bytes(3) + HLS.encode(),
    "HLS in lower case": HLS.lower().encode(),
    "HLS with a UTF-8 mark": b"\xef\xbb\xbf" + HLS.encode(),
    "HLS in UTF-16 with a mark": HLS.encode("utf-16"),
    "HLS in UTF-16-LE": HLS.encode("utf-16-le"),
    "HLS in UTF-16-BE": HLS.encode("utf-16-be"),
    "HLS behind an ID3 tag": b"ID3\x04\x00\x00\x00\x00\x00\x0a" + bytes(10) + HLS.encode(),
    "M3U with a Chinese title": "#EXTM3U\n#EXTINF:4,中文标题\nfile:///etc/passwd\n".encode("gb18030"),
    "HLS behind a comment": b"# made by hand\n" + HLS.encode(),
    "list of addresses": b"http://example.org/a.mp4\nhttp://example.org/b.mp4\n",
    "ffconcat": b"ffconcat version 1.0\nfile other.mp4\n",
    "concat script without a header": b"# list\nfile '/etc/passwd'\n",
    "SDP": b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nm=video 5004 RTP/AVP 96\r\n",
    "SDP that starts with its connection": b"c=IN IP4 10.0.0.1\nm=audio 5004 RTP/AVP 0\n",
    "DASH": b'<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period/></MPD>',
    "DASH with a prefix": b'<?xml version="1.0"?><dash:MPD xmlns:dash="urn:mpeg:dash:schema:mpd:2011"/>',
    "Smooth Streaming": b'<SmoothStreamingMedia MajorVersion="2"></SmoothStreamingMedia>',
    "XSPF": b'<?xml version="1.0"?><playlist version="1" xmlns="http://xspf.org/ns/0/"></playlist>',
    "ASX": b'<asx version="3.0"><entry><ref href="http://x"/></entry></asx>',
    "IMF": b'<CompositionPlaylist xmlns="http://www.smpte-ra.org/schemas/2067-3/2016"></CompositionPlaylist>',
    "PLS": b"[playlist]\nFile1=http://x\n",
    "ASF reference": b"[Reference]\nRef1=http://x\n",
    "cue sheet": b'REM x\nPERFORMER "y"\nFILE "/etc/passwd" WAVE\n  TRACK 01 AUDIO\n',
    "RTSP text": b"RTSPtext\nrtsp://x\n",
}


@pytest.mark.parametrize("name", PLAYLISTS)
def test_a_playlist_is_refused_whatever_it_is_called_and_encoded_in(name: str) -> None:
    with pytest.raises(MediaError) as refusal:
        refuse_dangerous(PLAYLISTS[name])
    assert refusal.value.code is ErrorCode.PLAYLIST_REFUSED


@pytest.mark.parametrize(
    "head",
    [
        b"%PDF-1.7\n",
        b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
        b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic",
        b"RIFF\x00\x10\x00\x00WEBPVP8X\x0a\x00\x00\x00\x12\x00\x00\x00",
        b"\x00\x00\x00\x01\x67\x42\x00\x1e",
    ],
)
def test_what_cannot_be_decoded_is_named_unsupported(head: bytes) -> None:
    with pytest.raises(MediaError) as refusal:
        refuse_dangerous(head)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_FORMAT


@pytest.mark.parametrize(
    "head",
    [
        b"\x00\x00\x00\x20ftypisom\x00\x00\x02\x00isomiso2avc1mp41",
        b"\x00\x00\x00\x01mdat\x00\x00\x00\x00\x10\x00\x00\x00",
        b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01",
        b"RIFF\x10\x00\x00\x00AVI LIST",
        b"RIFF\x00\x10\x00\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00",
        b"OggS\x00\x02",
        b"FLV\x01\x05\x00\x00\x00\x09",
        (b"\x47" + bytes(187)) * 3,
        (bytes(4) + b"\x47" + bytes(187)) * 3,
        b"ID3\x04\x00\x00\x00\x00\x00\x0a" + bytes(10),
        b"\xff\xfb\x90\x64" + bytes(100),
        b"\x89PNG\r\n\x1a\n",
    ],
)
def test_a_known_container_that_does_not_open_is_damaged(head: bytes) -> None:
    refuse_dangerous(head)
    assert unreadable(head).code is ErrorCode.DAMAGED_CONTAINER


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n\n",
        b"just some words, and no film\n",
        b"The free encyclopedia",
        b"See http://example.org/a.m3u8 for the #EXTM3U format.\nThe file 'x' is there.\n",
        b"root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n",
        b'{"v": 0}',
        b"<html><body>playlist</body></html>",
        bytes(5000),
        b"PK\x03\x04" + bytes(100),
    ],
)
def test_anything_else_is_no_media(head: bytes) -> None:
    refuse_dangerous(head)
    assert unreadable(head).code is ErrorCode.NOT_MEDIA


def test_random_bytes_are_hardly_ever_taken_for_something() -> None:
    kinds = [sniff(random.Random(seed).randbytes(3000)).kind for seed in range(2000)]
    assert kinds.count(Kind.UNKNOWN) > 1980
    assert Kind.PLAYLIST not in kinds

import os
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.media.limits import MediaLimits
from stages.media.opening import open_file
from stages.media.structure import Structure, read_structure

MP4 = "mov,mp4,m4a,3gp,3g2,mj2"


def box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def track(number: int, entry: bytes) -> bytes:
    tkhd = box(b"tkhd", bytes(12), struct.pack(">I", number), bytes(64))
    stsd = box(b"stsd", struct.pack(">II", 0, 1), box(entry, bytes(70)))
    return box(b"trak", tkhd, box(b"mdia", box(b"minf", box(b"stbl", stsd))))


def mvhd(rate: int, ticks: int) -> bytes:
    return box(b"mvhd", bytes(12), struct.pack(">II", rate, ticks), bytes(80))


def read(data: bytes, container: str, folder: Path) -> Structure:
    (folder / "file").write_bytes(data)
    file = open_file(os.fsencode(folder / "file"), MediaLimits())
    try:
        return read_structure(file, container)
    finally:
        file.close()


def test_an_mp4_whose_media_box_ends_beyond_the_file_was_cut(tmp_path: Path) -> None:
    whole = box(b"ftyp", b"isom") + box(b"moov", mvhd(1000, 4000)) + box(b"mdat", bytes(1000))
    assert read(whole, MP4, tmp_path).cut is False
    assert read(whole[:-1], MP4, tmp_path).cut is True


def test_a_media_box_up_to_the_end_of_the_file_cannot_be_cut(tmp_path: Path) -> None:
    assert read(box(b"ftyp") + struct.pack(">I4s", 0, b"mdat") + bytes(100), MP4, tmp_path).cut is False


def test_boxes_of_64_bits_are_understood(tmp_path: Path) -> None:
    large = struct.pack(">I4sQ", 1, b"mdat", 16 + 50)
    assert read(large + bytes(50) + box(b"moov", mvhd(10, 45)), MP4, tmp_path) == Structure(cut=False, declared_s=4.5)
    assert read(large + bytes(49), MP4, tmp_path).cut is True


def test_junk_behind_the_media_is_no_cut(tmp_path: Path) -> None:
    assert read(box(b"mdat", bytes(10)) + struct.pack(">I4s", 10_000, b"junk"), MP4, tmp_path).cut is False


@pytest.mark.parametrize("entry", [b"encv", b"enca", b"drmi"])
def test_encrypted_tracks_are_told_by_their_sample_entry(tmp_path: Path, entry: bytes) -> None:
    data = box(b"moov", mvhd(1, 1), track(1, b"avc1"), track(7, entry))
    assert read(data, MP4, tmp_path).encrypted_tracks == {7}


def test_a_movie_claims_a_length_or_none(tmp_path: Path) -> None:
    assert read(box(b"moov", mvhd(1000, 360_000_000)), MP4, tmp_path).declared_s == 360_000
    assert not read(box(b"moov", mvhd(1000, 0xFFFFFFFF)), MP4, tmp_path).declared_s
    assert not read(box(b"moov", mvhd(0, 1)), MP4, tmp_path).declared_s


def test_endless_nesting_ends(tmp_path: Path) -> None:
    nested = b""
    for _ in range(3000):
        nested = box(b"trak", nested)
    read(box(b"moov", *[nested] * 20), MP4, tmp_path)


@settings(max_examples=200, deadline=None)
@given(
    data=st.binary(max_size=200),
    head=st.sampled_from([b"", box(b"ftyp"), struct.pack(">I4s", 100, b"moov"), struct.pack(">I4s", 2**31, b"mdat")]),
    container=st.sampled_from([MP4, "matroska,webm", "avi", "flv", "mpegts", "ogg"]),
)
def test_any_bytes_are_read_without_an_error(
    data: bytes, head: bytes, container: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    read(head + data + b"x", container, tmp_path_factory.getbasetemp())


def test_random_boxes_are_read_without_an_error(tmp_path: Path) -> None:
    rnd = random.Random(5)
    kinds = [b"moov", b"trak", b"mdia", b"stbl", b"stsd", b"tkhd", b"mvhd", b"mdat"]
    for _ in range(200):
        claims = b"".join(
            struct.pack(">I4s", rnd.choice([0, 1, 7, 8, 20, 2**32 - 1]), rnd.choice(kinds)) for _ in range(30)
        )
        read(claims, MP4, tmp_path)


def test_a_matroska_segment_larger_than_the_file_was_cut(tmp_path: Path) -> None:
    head = b"\x1a\x45\xdf\xa3\x84webm"
    sized = head + b"\x18\x53\x80\x67\x40\x64"  # 100 bytes
    live = head + b"\x18\x53\x80\x67\x01" + b"\xff" * 7
    assert read(sized + bytes(100), "matroska,webm", tmp_path).cut is False
    assert read(sized + bytes(99), "matroska,webm", tmp_path).cut is True
    assert read(live + bytes(99), "matroska,webm", tmp_path).cut is None


def test_a_riff_chunk_larger_than_the_file_was_cut(tmp_path: Path) -> None:
    def riff(size: int) -> bytes:
        return struct.pack("<4sI4s", b"RIFF", size, b"AVI ") + bytes(100)

    assert read(riff(104), "avi", tmp_path).cut is False
    assert read(riff(1000), "avi", tmp_path).cut is True
    assert read(riff(0xFFFFFFFF), "wav", tmp_path).cut is None


def test_an_flv_without_its_last_tag_was_cut(tmp_path: Path) -> None:
    tag = bytes([9]) + (20).to_bytes(3, "big") + bytes(7) + bytes(20)
    whole = b"FLV\x01\x01\x00\x00\x00\x09" + bytes(4) + tag + (31).to_bytes(4, "big")
    assert read(whole, "flv", tmp_path).cut is False
    assert read(whole[:-10], "flv", tmp_path).cut is True


def test_a_transport_stream_is_scrambled_if_most_of_its_packets_are(tmp_path: Path) -> None:
    clear, secret = (bytes([0x47, 0x01, 0x00, flags]) + bytes(184) for flags in (0x10, 0x90))
    assert read(clear * 3 + secret * 20, "mpegts", tmp_path).scrambled
    assert not read(clear * 20 + secret * 3, "mpegts", tmp_path).scrambled

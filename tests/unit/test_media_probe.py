import os
from fractions import Fraction
from pathlib import Path

import pytest

from schemas.errors import DeadlineExceeded, ErrorCode, MediaError, WarningCode
from stages.media.facts import MediaFacts
from stages.media.limits import MediaLimits
from stages.media.reader import MediaReader
from tests.media_samples import Film, Tone, write_clip


def probe(path: Path, limits: MediaLimits | None = None) -> MediaFacts:
    reader = MediaReader(os.fsencode(path), limits or MediaLimits(), lambda: None)
    try:
        return reader.probe()
    finally:
        reader.close()


def refusal(path: Path, limits: MediaLimits | None = None) -> ErrorCode:
    with pytest.raises(MediaError) as refused:
        probe(path, limits)
    return refused.value.code


def codes(facts: MediaFacts) -> set[WarningCode]:
    return {notice.code for notice in facts.notices}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Two seconds of pictures and sound in an MP4 whose index comes first."""
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    return write_clip(path, Film(), Tone(), options={"movflags": "faststart"}).read_bytes()


def saved(data: bytes, folder: Path) -> Path:
    (folder / "clip.mp4").write_bytes(data)
    return folder / "clip.mp4"


@pytest.mark.parametrize(
    ("name", "film", "tone", "container", "codecs"),
    [
        ("a.mp4", Film(), Tone(), "mp4", ("h264", "aac")),
        (
            "a.mov",
            Film(codec="prores_ks", pix_fmt="yuv422p10le"),
            Tone(codec="pcm_s16le"),
            "mov",
            ("prores", "pcm_s16le"),
        ),
        ("a.mkv", Film(codec="mpeg4", b_frames=0), Tone(codec="flac"), "matroska", ("mpeg4", "flac")),
        ("a.webm", Film(codec="libvpx"), Tone(codec="libopus"), "webm", ("vp8", "opus")),
        ("a.webm", Film(codec="libvpx-vp9"), Tone(codec="libopus"), "webm", ("vp9", "opus")),
        (
            "a.avi",
            Film(codec="mjpeg", pix_fmt="yuvj420p", b_frames=0),
            Tone(codec="pcm_s16le"),
            "avi",
            ("mjpeg", "pcm_s16le"),
        ),
        ("a.ts", Film(), Tone(), "mpegts", ("h264", "aac")),
        ("a.flv", Film(codec="flv", b_frames=0), Tone(), "flv", ("flv1", "aac")),
        ("a.mxf", Film(codec="mpeg2video"), None, "mxf", ("mpeg2video", None)),
        ("a.gif", Film(codec="gif", pix_fmt="rgb8"), None, "gif", ("gif", None)),
    ],
)
def test_the_facts_are_measured_in_every_common_container(
    tmp_path: Path, name: str, film: Film, tone: Tone | None, container: str, codecs: tuple[str, str | None]
) -> None:
    facts = probe(write_clip(tmp_path / name, film, tone))
    assert (facts.container, facts.video_codec, facts.audio_codec) == (container, *codecs)
    assert (facts.width, facts.height, len(facts.frame_times_s)) == (96, 64, 50)
    assert facts.has_audio == (tone is not None)
    assert facts.duration_s == pytest.approx(2.0, abs=0.05)
    assert facts.fps == pytest.approx(25, abs=0.1)
    assert facts.frame_times_s == pytest.approx([index / 25 for index in range(50)], abs=0.001)
    assert facts.keyframe_times_s[0] == 0
    assert facts.notices == ()


def test_times_come_from_stamps_where_the_frame_rate_varies(tmp_path: Path) -> None:
    stamps = (0, 1, 2, 30, 31, 60, 99)
    facts = probe(write_clip(tmp_path / "clip.mkv", Film(stamps=stamps, b_frames=0)))
    assert facts.frame_times_s == pytest.approx([stamp / 25 for stamp in stamps], abs=0.001)


def test_time_starts_at_the_first_picture(tmp_path: Path) -> None:
    facts = probe(write_clip(tmp_path / "clip.ts", Film(first_stamp=90_000)))
    assert facts.frame_times_s[0] == 0
    assert facts.duration_s == pytest.approx(2.0, abs=0.05)


def test_sound_longer_than_the_pictures_counts(tmp_path: Path) -> None:
    facts = probe(write_clip(tmp_path / "clip.mp4", Film(frames=25), Tone(seconds=3)))
    assert facts.duration_s == pytest.approx(3.0, abs=0.05)
    assert facts.audio_s == pytest.approx(3.0, abs=0.05)


@pytest.mark.parametrize(
    ("turn", "size", "rotation"),
    [
        ((90, False, False), (64, 96), 270),
        ((-90, False, False), (64, 96), 90),
        ((180, False, False), (96, 64), 180),
        ((0, True, False), (96, 64), 0),
        ((90, False, True), (64, 96), 270),
    ],
)
def test_the_size_is_that_of_the_upright_picture(
    tmp_path: Path, turn: tuple[float, bool, bool], size: tuple[int, int], rotation: int
) -> None:
    facts = probe(write_clip(tmp_path / "clip.mp4", Film(turn=turn)))
    assert (facts.width, facts.height) == size
    assert facts.rotation == rotation


def test_the_size_is_in_square_pixels(tmp_path: Path) -> None:
    wide = probe(write_clip(tmp_path / "wide.mp4", Film(aspect=Fraction(4, 3))))
    turned = probe(write_clip(tmp_path / "turned.mp4", Film(aspect=Fraction(4, 3), turn=(90, False, False))))
    absurd = probe(write_clip(tmp_path / "absurd.mp4", Film(aspect=Fraction(50, 1))))
    assert (wide.width, wide.height) == (128, 64)
    assert (turned.width, turned.height) == (64, 128)
    assert (absurd.width, absurd.height) == (96, 64)


def test_a_tiny_picture_is_answered_as_it_is_and_called_small(tmp_path: Path) -> None:
    facts = probe(write_clip(tmp_path / "clip.mp4", Film(width=32, height=32, aspect=Fraction(4, 3))))
    assert (facts.width, facts.height) == (32, 32)
    assert codes(facts) == {WarningCode.TOO_SMALL}


@pytest.mark.parametrize("name", ["a.wav", "a.mp3", "a.flac", "a.m4a", "a.ogg"])
def test_sound_alone_is_measured_and_said_to_be_alone(tmp_path: Path, name: str) -> None:
    codec = {"a.wav": "pcm_f32le", "a.mp3": "libmp3lame", "a.flac": "flac", "a.m4a": "aac", "a.ogg": "libopus"}[name]
    facts = probe(write_clip(tmp_path / name, None, Tone(codec=codec)))
    assert (facts.width, facts.fps, facts.frame_times_s) == (None, None, ())
    assert facts.has_audio
    assert facts.duration_s == pytest.approx(2.0, abs=0.06)
    assert codes(facts) == {WarningCode.NO_VIDEO_STREAM}


def test_a_still_picture_is_a_clip_of_one_frame(tmp_path: Path) -> None:
    facts = probe(write_clip(tmp_path / "clip.apng", Film(codec="apng", frames=1, pix_fmt="rgb24")))
    assert (facts.width, facts.height, facts.frame_times_s) == (96, 64, (0.0,))


def test_a_file_that_was_cut_says_so_and_is_measured_by_what_is_left(tmp_path: Path, clip: bytes) -> None:
    facts = probe(saved(clip[: len(clip) * 6 // 10], tmp_path))
    assert codes(facts) == {WarningCode.TRUNCATED}
    assert 0.5 < facts.duration_s < 1.8
    assert facts.declared_duration_s == pytest.approx(2.0, abs=0.05)


def test_a_header_that_lies_about_a_whole_file_is_a_mismatch_and_no_cut(tmp_path: Path, clip: bytes) -> None:
    at = clip.index(b"mvhd") + 4 + 16
    lying = clip[:at] + (10**8).to_bytes(4, "big") + clip[at + 4 :]
    facts = probe(saved(lying, tmp_path))
    assert codes(facts) == {WarningCode.HEADER_MISMATCH}
    assert facts.duration_s == pytest.approx(2.0, abs=0.05)


def test_a_recording_that_was_never_closed_is_damaged(tmp_path: Path) -> None:
    whole = write_clip(tmp_path / "whole.mp4", Film()).read_bytes()
    assert refusal(saved(whole[: whole.index(b"moov")], tmp_path)) is ErrorCode.DAMAGED_CONTAINER


def test_an_unknown_picture_codec_is_named(tmp_path: Path, clip: bytes) -> None:
    assert refusal(saved(clip.replace(b"avc1", b"zz9z"), tmp_path)) is ErrorCode.UNSUPPORTED_VIDEO_CODEC


def test_an_unknown_sound_codec_is_named_when_there_is_only_sound(tmp_path: Path) -> None:
    data = write_clip(tmp_path / "sound.wav", None, Tone(codec="pcm_s16le")).read_bytes()
    assert refusal(saved(data[:20] + b"\x77\x77" + data[22:], tmp_path)) is ErrorCode.UNSUPPORTED_AUDIO_CODEC


def test_encrypted_pictures_are_never_analysed(tmp_path: Path, clip: bytes) -> None:
    assert refusal(saved(clip.replace(b"avc1", b"encv"), tmp_path)) is ErrorCode.ENCRYPTED


def test_encrypted_sound_does_not_hide_clear_pictures(tmp_path: Path, clip: bytes) -> None:
    facts = probe(saved(clip.replace(b"mp4a", b"enca"), tmp_path))
    assert len(facts.frame_times_s) == 50


def element(ident: str, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes.fromhex(ident) + (1 << 56 | len(body)).to_bytes(8, "big") + body


@pytest.mark.parametrize("kind", [1, 2])
def test_an_encrypted_matroska_track_is_told_by_its_key(tmp_path: Path, kind: int) -> None:
    key = element("5035", element("47e1", b"\x05"), element("47e2", b"key-id"))
    encodings = element("6d80", element("6240", element("5033", b"\x01"), key))
    form = element("e0", element("b0", b"\x60"), element("ba", b"\x40")) if kind == 1 else element("e1")
    codec = b"V_VP8" if kind == 1 else b"A_PCM/INT/LIT"
    entry = element(
        "ae", element("d7", b"\x01"), element("73c5", b"\x01"), element("83", bytes([kind])), element("86", codec),
        form, encodings,
    )  # fmt: skip
    cluster = element("1f43b675", element("e7", b"\x00"), element("a3", b"\x81\x00\x00\x80", bytes(range(200))))
    data = element("1a45dfa3", element("4282", b"webm")) + element("18538067", element("1654ae6b", entry), cluster)
    assert refusal(saved(data, tmp_path)) is ErrorCode.ENCRYPTED


def test_too_long_is_told_by_the_packets_whatever_the_header_says(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mkv", Film(stamps=(0, 25 * 3600), b_frames=0))
    assert path.stat().st_size < 5000
    assert refusal(path) is ErrorCode.TOO_LONG
    assert (
        refusal(write_clip(tmp_path / "a.flac", None, Tone(codec="flac")), MediaLimits(max_duration_s=1))
        is ErrorCode.TOO_LONG
    )


def test_too_many_packets_are_too_long(tmp_path: Path) -> None:
    assert refusal(write_clip(tmp_path / "clip.mp4", Film()), MediaLimits(max_packets=49)) is ErrorCode.TOO_LONG


@pytest.mark.parametrize(
    ("name", "film"),
    [
        ("a.mp4", Film()),
        ("a.mkv", Film(codec="libx265")),
        ("a.webm", Film(codec="libvpx")),
        ("a.webm", Film(codec="libvpx-vp9")),
        ("a.mp4", Film(codec="libsvtav1")),
        ("a.avi", Film(codec="mpeg4", b_frames=0)),
        ("a.avi", Film(codec="mjpeg", pix_fmt="yuvj420p", b_frames=0)),
        ("a.gif", Film(codec="gif", pix_fmt="rgb8")),
        ("a.apng", Film(codec="apng", frames=1, pix_fmt="rgb24")),
    ],
)
def test_too_many_pixels_are_refused_by_every_decoder(tmp_path: Path, name: str, film: Film) -> None:
    path = write_clip(tmp_path / name, film)
    assert refusal(path, MediaLimits(max_pixels=96 * 64 - 1)) is ErrorCode.TOO_MANY_PIXELS
    assert probe(path, MediaLimits(max_pixels=300 * 300)).width == 96


def test_a_header_that_claims_a_huge_picture_over_a_small_one_is_not_believed(tmp_path: Path, clip: bytes) -> None:
    for claim in (7000, 32_000):
        lying = clip
        for width in (2, 4):  # in the sample entry, and as 16.16 fixed point in the track's header
            shift = 16 * (width == 4)
            true, false = (
                b"".join((n << shift).to_bytes(width, "big") for n in size) for size in ((96, 64), (claim, claim))
            )
            assert true in clip
            lying = lying.replace(true, false)
        facts = probe(saved(lying, tmp_path))
        assert (facts.width, facts.height) == (96, 64)


def test_the_check_between_packets_ends_the_work(tmp_path: Path, clip: bytes) -> None:
    def late() -> None:
        raise DeadlineExceeded

    reader = MediaReader(os.fsencode(saved(clip, tmp_path)), MediaLimits(), late)
    with pytest.raises(DeadlineExceeded):
        reader.probe()
    reader.close()

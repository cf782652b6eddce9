import os
import socket
from pathlib import Path

import pytest

from schemas.errors import ErrorCode, MediaError
from stages.media import opening
from stages.media.limits import MediaLimits
from stages.media.opening import open_container, open_file, open_media
from tests.media_samples import Film, write_clip
from tests.unit.test_media_sniff import PLAYLISTS


def refusal(path: bytes | Path, limits: MediaLimits | None = None) -> ErrorCode:
    with pytest.raises(MediaError) as refused:
        open_file(os.fsencode(path), limits or MediaLimits())
    return refused.value.code


def test_a_pipe_without_a_writer_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    assert refusal(tmp_path / "pipe.mp4") is ErrorCode.NOT_A_REGULAR_FILE


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "zero.mp4").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.mp4"))
        assert {refusal(tmp_path), refusal(tmp_path / "zero.mp4"), refusal(tmp_path / "socket.mp4")} == {
            ErrorCode.NOT_A_REGULAR_FILE
        }


def test_links_that_lead_nowhere_are_not_found(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"x")
    missing = ("dangling", "loop", "nothing", "file/below")
    assert {refusal(tmp_path / name) for name in missing} == {ErrorCode.NOT_FOUND}


def test_size_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2_000_000)
    assert refusal(tmp_path / "empty") is ErrorCode.EMPTY_FILE
    assert refusal(tmp_path / "large", MediaLimits(max_bytes=1_999_999)) is ErrorCode.TOO_LARGE


def test_impossible_names_are_bad_names(tmp_path: Path) -> None:
    assert refusal(b"a\0b") is ErrorCode.BAD_NAME
    assert refusal(tmp_path / ("x" * 300)) is ErrorCode.BAD_NAME


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_not_readable(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "secret").chmod(0)
    assert refusal(tmp_path / "secret") is ErrorCode.NOT_READABLE


@pytest.mark.parametrize("name", [b"\xff\xfe.mp4", b"-i.mp4", b"a:b.mp4", b"new\nline.mp4", b"%03d.mp4", b"[1]*?.mp4"])
def test_any_name_that_a_file_can_have_is_opened(tmp_path: Path, name: bytes) -> None:
    path = write_clip(tmp_path / "plain.mp4", Film(frames=3)).rename(tmp_path / os.fsdecode(name))
    open_media(os.fsencode(path), MediaLimits()).close()


@pytest.mark.parametrize("name", PLAYLISTS)
def test_ffmpeg_itself_opens_no_playlist_even_if_none_was_recognised(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "refuse_dangerous", lambda head: None)
    write_clip(tmp_path / "other.mp4", Film(frames=3))
    (tmp_path / "list.mp4").write_bytes(PLAYLISTS[name])
    file = open_file(os.fsencode(tmp_path / "list.mp4"), MediaLimits())
    with pytest.raises(MediaError):
        open_container(file, MediaLimits())
    file.close()


def test_no_whitelisted_demuxer_reads_other_files() -> None:
    readers_of_others = {
        "hls",
        "dash",
        "concat",
        "concatf",
        "sdp",
        "rtsp",
        "rtp",
        "sap",
        "image2",
        "imf",
        "lavfi",
        "vobsub",
    }
    assert readers_of_others.isdisjoint(opening.DEMUXERS.split(","))


def test_more_streams_than_allowed_are_refused(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", Film(frames=3))
    with pytest.raises(MediaError) as refused:
        open_media(os.fsencode(path), MediaLimits(max_streams=0))
    assert refused.value.code is ErrorCode.DAMAGED_CONTAINER


def test_reading_moves_on_and_reading_at_a_place_does_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    file = open_file(os.fsencode(tmp_path / "file"), MediaLimits())
    assert (file.read(3), file.tell(), file.read_at(7, 99), file.tell()) == (b"012", 3, b"789", 3)
    assert (file.seek(-2, os.SEEK_END), file.read(9), file.read(9)) == (8, b"89", b"")
    with pytest.raises(OSError, match="before the start"):
        file.seek(-1)
    copy = file.clone()
    file.close()
    file.close()
    assert copy.read(2) == b"01"
    copy.close()

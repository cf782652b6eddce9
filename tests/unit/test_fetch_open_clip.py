"""Opening files below a root, whatever lies there."""

import os
import socket
from pathlib import Path

import pytest

from pipeline.fetch.open_clip import OpenClip, StoppedEarly, open_below
from schemas.errors import ErrorCode, MediaError
from tests.fetching import open_descriptors


def opened(root: Path, *names: str) -> OpenClip:
    return open_below(os.fsencode(root), tuple(map(os.fsencode, names)))


def code_of(root: Path, *names: str) -> ErrorCode:
    with pytest.raises(MediaError) as caught:
        opened(root, *names)
    return caught.value.code


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "clip").write_bytes(b"clip")
    return root


def test_a_file_below_the_root_can_be_read_by_its_path(root: Path) -> None:
    with opened(root, "folder", "clip") as clip:
        assert clip.path.read_bytes() == b"clip"
        assert clip.size_bytes == 4


def test_the_path_stays_with_the_file_when_its_name_goes_to_another(root: Path) -> None:
    with opened(root, "folder", "clip") as clip:
        (root / "folder" / "clip").unlink()
        (root / "folder" / "clip").symlink_to(root.parent / "secret")
        assert clip.path.read_bytes() == b"clip"


def test_a_link_is_not_followed_wherever_it_stands(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "secret")
    (root / "here").symlink_to(root / "folder" / "clip")
    (root / "way").symlink_to(root.parent)
    assert code_of(root, "link") is ErrorCode.FETCH_REFUSED
    assert code_of(root, "here") is ErrorCode.FETCH_REFUSED
    assert code_of(root, "way", "secret") is ErrorCode.NOT_FOUND


def test_a_root_may_be_a_link(root: Path) -> None:
    (root.parent / "alias").symlink_to(root)
    opened(root.parent / "alias", "folder", "clip").close()


def test_what_is_no_file_is_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root)  # names of sockets are short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    for name in ("pipe", "socket", "folder"):
        assert code_of(root, name) is ErrorCode.NOT_A_REGULAR_FILE
    assert code_of(Path("/dev"), "zero") is ErrorCode.NOT_A_REGULAR_FILE


def test_what_is_not_there_is_not_found(root: Path) -> None:
    assert code_of(root, "nothing") is ErrorCode.NOT_FOUND
    assert code_of(root, "folder", "clip", "deeper") is ErrorCode.NOT_FOUND
    assert code_of(root / "gone", "clip") is ErrorCode.NOT_FOUND
    assert code_of(root, "x" * 300) is ErrorCode.BAD_NAME


def test_a_file_that_is_written_to_is_noticed(root: Path) -> None:
    with opened(root, "folder", "clip") as clip:
        clip.require_unchanged()
        status = (root / "folder" / "clip").stat()
        (root / "folder" / "clip").write_bytes(b"CLIP")
        os.utime(root / "folder" / "clip", ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(MediaError) as caught:
            clip.require_unchanged()
    assert caught.value.code is ErrorCode.FETCH_FAILED
    assert caught.value.retryable


def test_hashing_stops_when_nobody_waits(root: Path) -> None:
    with opened(root, "folder", "clip") as clip, pytest.raises(StoppedEarly):
        clip.sha256(lambda: True)


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "link").symlink_to(root)
    before = open_descriptors()
    opened(root, "folder", "clip").close()
    for names in (("link",), ("link", "folder"), ("folder",), ("nothing",), ("folder", "clip", "x")):
        code_of(root, *names)
    assert open_descriptors() == before

"""Taking file: URIs apart that strangers wrote."""

from pathlib import PurePosixPath

import pytest

from pipeline.fetch.errors import FetchError
from pipeline.fetch.local_path import LocalPath, below_root, parse_file_uri
from schemas.errors import ErrorCode


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("file:///clips/a.mp4", (b"clips", b"a.mp4")),
        ("file:/clips/a.mp4", (b"clips", b"a.mp4")),
        ("FILE://localhost/clips//./a.mp4", (b"clips", b"a.mp4")),
        ("file:///clips/%E4%FF.mp4", (b"clips", b"\xe4\xff.mp4")),
        ("file:///clips/a%20b%3F%23.mp4", (b"clips", b"a b?#.mp4")),
        ("file:///clips/%252e%252e", (b"clips", b"%2e%2e")),
        (PurePosixPath("/clips/ünï 1.mp4").as_uri(), (b"clips", "ünï 1.mp4".encode())),
    ],
)
def test_the_names_are_decoded_once(uri: str, names: tuple[bytes, ...]) -> None:
    assert parse_file_uri(uri) == names


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("file:///clips/../etc/passwd", ErrorCode.FETCH_REFUSED),
        ("file:///clips/%2e%2e/etc/passwd", ErrorCode.FETCH_REFUSED),
        ("file:///clips/a%2F..%2F..%2Fetc", ErrorCode.FETCH_REFUSED),
        ("file://host/clips/a", ErrorCode.FETCH_REFUSED),
        ("file://user@localhost/a", ErrorCode.FETCH_REFUSED),
        ("file:clips/a", ErrorCode.FETCH_REFUSED),
        ("file:///clips/", ErrorCode.FETCH_REFUSED),
        ("file:///", ErrorCode.FETCH_REFUSED),
        ("file:", ErrorCode.FETCH_REFUSED),
        ("file:///a?b", ErrorCode.FETCH_REFUSED),
        ("file:///a#b", ErrorCode.FETCH_REFUSED),
        ("file://[/a", ErrorCode.FETCH_REFUSED),
        ("file:///a%00b", ErrorCode.BAD_NAME),
        ("file:///\ud800", ErrorCode.BAD_NAME),
        ("file:///" + "a" * 5000, ErrorCode.BAD_NAME),
    ],
)
def test_a_crooked_path_is_refused(uri: str, code: ErrorCode) -> None:
    with pytest.raises(FetchError) as caught:
        parse_file_uri(uri)
    assert caught.value.code is code
    assert not caught.value.retryable


def test_a_path_belongs_to_the_innermost_root() -> None:
    roots = [b"/clips", b"/clips/new/", b"/"]
    assert below_root((b"clips", b"new", b"a"), roots) == LocalPath(b"/clips/new/", (b"a",))
    assert below_root((b"clips", b"a"), roots) == LocalPath(b"/clips", (b"a",))
    assert below_root((b"b",), roots) == LocalPath(b"/", (b"b",))


@pytest.mark.parametrize("names", [(b"clips",), (b"clipsx", b"a"), (b"etc", b"passwd")])
def test_what_lies_beside_a_root_is_refused(names: tuple[bytes, ...]) -> None:
    with pytest.raises(FetchError):
        below_root(names, [b"/clips"])


def test_without_roots_every_path_is_refused() -> None:
    with pytest.raises(FetchError):
        below_root((b"clips", b"a"), [])

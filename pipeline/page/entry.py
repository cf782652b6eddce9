"""What a page is made from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.media import Frame
from schemas.result import FusedResult


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One clip of a report.

    ``frames``: the sampled pictures that the result speaks of (may be empty). ``name``: what to call the clip on the
    page; any text, also a hostile one. ``media_path``: the clip itself, copied beside its page when a browser can play
    it; None leaves the player out. ``budget_ms``: the time that was allowed; None without a deadline.
    """

    result: FusedResult
    frames: Sequence[Frame]
    name: str
    media_path: Path | None = None
    budget_ms: int | None = None

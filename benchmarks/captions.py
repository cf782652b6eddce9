"""Scores what was written on screen."""

import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jiwer

from schemas.result import TextSpan

MAX_ERROR_RATE = 0.10
"""A caption read worse than this counts as missed."""

MAX_LINES = 4
"""A caption may be broken into this many lines."""

SLACK_S = 0.5
"""The manifest says "about"."""


@dataclass(frozen=True, slots=True)
class Caption:
    """Text shown between ``t_start_s`` and ``t_end_s``."""

    text: str
    t_start_s: float = 0.0
    t_end_s: float = float("inf")


@dataclass(frozen=True, slots=True)
class Counter:
    """Text that follows from the frame's number; see caption_truth.toml."""

    text: str
    fps: int
    every: int
    first: int
    hidden: tuple[int, ...] = ()

    def at(self, t_s: float) -> Caption | None:
        """Return what the frame at ``t_s`` shows; None when no one could read it."""
        frame = round(t_s * self.fps)
        number = frame // self.every + self.first
        if number in self.hidden:
            return None
        text = self.text.format(n=number, s=frame // self.fps, f=frame % self.fps)
        half = 0.5 / self.fps
        return Caption(text, t_s - half, t_s + half)


@dataclass(frozen=True, slots=True)
class CaptionTruth:
    """What is written in one clip."""

    captions: tuple[Caption, ...] = ()
    counter: Counter | None = None

    def expected(self, read_times_s: Iterable[float]) -> tuple[Caption, ...]:
        """Return what should have been read by someone who looked at the frames at ``read_times_s``."""
        counted = [self.counter.at(t_s) for t_s in read_times_s] if self.counter else []
        return self.captions + tuple(caption for caption in counted if caption is not None)


@dataclass(frozen=True, slots=True)
class CaptionScore:
    """Captions found and missed."""

    found: tuple[str, ...]
    missed: tuple[str, ...]


def load_caption_truth(path: Path = Path(__file__).parent / "caption_truth.toml") -> dict[str, CaptionTruth]:
    """Read what is written, by the clip's name in the manifest."""
    return {name: _caption_truth(entry) for name, entry in tomllib.loads(path.read_text("utf-8")).items()}


def _caption_truth(entry: dict[str, Any]) -> CaptionTruth:
    captions = tuple(
        Caption(item["text"], *(bound + slack for bound, slack in zip(item["t"], (-SLACK_S, SLACK_S), strict=True)))
        if "t" in item
        else Caption(item["text"])
        for item in entry.get("captions", ())
    )
    counter = entry.get("counter")
    if counter is None:
        return CaptionTruth(captions)
    return CaptionTruth(captions, Counter(**{**counter, "hidden": tuple(counter.get("hidden", ()))}))


def score_captions(truth: CaptionTruth, read: Sequence[TextSpan], *, read_times_s: Iterable[float]) -> CaptionScore:
    """Look for every caption among the lines that were read while it was shown."""
    found: list[str] = []
    missed: list[str] = []
    for caption in truth.expected(read_times_s):
        (found if _is_among(read, caption) else missed).append(caption.text)
    return CaptionScore(tuple(found), tuple(missed))


def _is_among(read: Sequence[TextSpan], caption: Caption) -> bool:
    shown = [span for span in read if span.t_start_s <= caption.t_end_s and span.t_end_s >= caption.t_start_s]
    return any(error_rate(caption.text, text) <= MAX_ERROR_RATE for text in _joined_lines(shown))


def error_rate(truth: str, text: str) -> float:
    """Return the character error rate, whatever the case and the spaces."""
    return float(jiwer.cer(_bare(truth), _bare(text)))


def _bare(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def _joined_lines(spans: Sequence[TextSpan]) -> Iterator[str]:
    """Yield every run of up to ``MAX_LINES`` lines that follow each other on screen and are there at the same time."""
    for first in spans:
        together = _reading_order([span for span in spans if _share_time(span, first)])
        start = together.index(first)
        for end in range(start + 1, min(start + MAX_LINES, len(together)) + 1):
            yield "".join(span.text for span in together[start:end])


def _share_time(one: TextSpan, other: TextSpan) -> bool:
    return one.t_start_s <= other.t_end_s and other.t_start_s <= one.t_end_s


def _reading_order(spans: Sequence[TextSpan]) -> list[TextSpan]:
    """Sort by row, then left to right. Spans share a row when their middles are less than half a line apart."""
    rows: list[list[TextSpan]] = []
    for span in sorted(spans, key=_middle):
        if rows and _middle(span) - _middle(rows[-1][0]) < _height(span) / 2:
            rows[-1].append(span)
        else:
            rows.append([span])
    return [span for row in rows for span in sorted(row, key=lambda span: span.box[0])]


def _middle(span: TextSpan) -> float:
    return (span.box[1] + span.box[3]) / 2


def _height(span: TextSpan) -> float:
    return span.box[3] - span.box[1]

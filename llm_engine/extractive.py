"""Summaries that quote: the sentence of a text that stands for the rest, or a plain sentence about the pictures."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llm_engine.prose import width

MAX_CHARS = 160
"""Of a summary: one line on a phone held sideways, two on a page."""

_LEAD_BONUS = 0.05
"""Speakers say first what they are about; in cosine units, it decides only between near equals."""

_SPARSE_WIDTH = 20
"""Narrower sentences ("Okay.", "你好。") say too little to stand for a text."""

_SPARSE_PENALTY = 0.3

_TOKEN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\s\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+\s*")
_IRREGULAR = {"person": "people", "mouse": "mice", "sheep": "sheep", "knife": "knives", "skis": "skis"}
_UNCOUNTED = frozenset({"scissors", "skis"})
_MAX_KINDS = 3


@dataclass(frozen=True, slots=True)
class Sight:
    """What the pictures show: the kind of place, if known, and how many of which objects, the surest first."""

    place: str | None = None
    objects: tuple[tuple[str, int], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Place and objects by name."""
        return tuple(word for word in (self.place, *(name for name, _ in self.objects)) if word)


def central_sentence(candidates: Sequence[str], vectors: npt.NDArray[np.float32]) -> int:
    """Return the index of the candidate nearest to the meaning of all. ``vectors``: unit rows, one a candidate."""
    weights = np.array([width(text) for text in candidates], dtype=np.float64)
    centre = weights @ vectors
    closeness = vectors @ (centre / max(float(np.linalg.norm(centre)), 1e-9))
    closeness[0] += _LEAD_BONUS
    closeness -= _SPARSE_PENALTY * (weights < _SPARSE_WIDTH)
    return int(np.argmax(closeness))


def shortened(text: str, *, max_tokens: int) -> tuple[str, bool]:
    """Return ``text`` cut after ``max_tokens`` words or Chinese characters, and whether that took anything away."""
    tokens = _TOKEN.findall(text)
    if len(tokens) <= max_tokens:
        return text, False
    return "".join(tokens[:max_tokens]).strip() + "…", True


def one_line(text: str) -> str:
    """Return ``text`` in one line of at most ``MAX_CHARS``, cut at a blank where there is one."""
    line = " ".join(text.split())
    if len(line) <= MAX_CHARS:
        return line
    head = line[: MAX_CHARS - 1]
    at_blank = head.rsplit(" ", 1)[0]
    return (at_blank if len(at_blank) > MAX_CHARS // 2 else head).rstrip(" ,;:，、；：") + "…"


def scene_sentence(sight: Sight) -> str:
    """Return an English sentence about the pictures ("A corridor with 3 people."); empty when they show nothing."""
    things = _listed([_counted(name, count) for name, count in sight.objects[:_MAX_KINDS]])
    place = _with_article(sight.place) if sight.place else ""
    sentence = f"{place} with {things}" if place and things else place or things
    return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""


def _counted(name: str, count: int) -> str:
    if name in _UNCOUNTED:
        return name
    return _with_article(name) if count == 1 else f"{count} {_plural(name)}"


def _plural(name: str) -> str:
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    return f"{name}es" if name.endswith(("s", "sh", "ch", "x")) else f"{name}s"


def _with_article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _listed(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)

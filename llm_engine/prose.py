"""Cuts text from outside into the units that models read: clean, bounded, whole sentences or parts of them."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

MAX_CHARS = 6000
"""Of one text: five minutes of speech. What lies between the two ends of a longer one is left out."""

_HAN_WIDTH = 3
"""Latin letters that say as much as one Chinese character."""

_JOINERS = frozenset("\u200c\u200d")
"""Format characters that emoji and some scripts need."""

_UNREADABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})

_HAN_CLASS = r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
_HAN = re.compile(_HAN_CLASS)
_SENTENCE_END = (
    r"(?<=[.!?…])(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bMrs\.)(?<!\bvs\.)(?<!\b[A-Z]\.)\s+"
    rf"|(?<=[。！？；])|\n+|(?<={_HAN_CLASS})\s+"
)
_SENTENCES = re.compile(_SENTENCE_END)
_CLAUSES = re.compile(rf"{_SENTENCE_END}|(?<=[,，、;:：])(?!\d)")


def plain(text: str, *, max_chars: int = MAX_CHARS) -> str:
    """Return ``text`` without control, format and unassigned characters; blanks are folded, lines are kept.

    Of more than ``max_chars`` characters the two ends are kept, each on lines of its own.
    """
    if len(text) > max_chars:
        text = f"{text[: max_chars // 2]}\n{text[-max_chars // 2 :]}"
    kept = "".join(ch for ch in text if ch.isspace() or ch in _JOINERS or unicodedata.category(ch) not in _UNREADABLE)
    lines = (" ".join(line.split()) for line in kept.splitlines())
    return "\n".join(line for line in lines if line)


def width(text: str) -> int:
    """Return how much ``text`` says, in Latin letters: a Chinese character counts as three."""
    return len(text) + (_HAN_WIDTH - 1) * len(_HAN.findall(text))


def says_something(text: str) -> bool:
    """Whether there is a letter or a digit in ``text``."""
    return any(map(str.isalnum, text))


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences (or lines) of ``text`` that say something, in order."""
    return tuple(part.strip() for part in _SENTENCES.split(text) if says_something(part))


def passages(text: str, *, at_most: int) -> tuple[str, ...]:
    """Return all of ``text`` that says something, in passages of whole clauses, each ``at_most`` wide."""
    packed: list[str] = []
    for clause in _CLAUSES.split(text):
        for piece in _cut(clause.strip(), at_most):
            if packed and width(packed[-1]) + width(piece) < at_most:
                packed[-1] = f"{packed[-1]} {piece}"
            else:
                packed.append(piece)
    return tuple(filter(says_something, packed))


def evenly(items: Sequence[str], most: int) -> tuple[str, ...]:
    """Return at most ``most`` of ``items``, evenly spaced, with the first and the last."""
    if len(items) <= most:
        return tuple(items)
    return tuple(items[round(i * (len(items) - 1) / (most - 1))] for i in range(most))


def _cut(clause: str, at_most: int) -> Iterator[str]:
    """Cut an overlong clause, at a blank where there is one in the second half."""
    while width(clause) > at_most:
        end = _fitting(clause, at_most)
        blank = clause.rfind(" ", end // 2, end)
        end = blank if blank > 0 else end
        yield clause[:end]
        clause = clause[end:].strip()
    if clause:
        yield clause


def _fitting(text: str, at_most: int) -> int:
    """Return how many characters from the front are ``at_most`` wide."""
    total = 0
    for index, ch in enumerate(text):
        total += _HAN_WIDTH if _HAN.match(ch) else 1
        if total > at_most:
            return index
    return len(text)

"""Makes words from outside safe to show: on a terminal, in a log, on a page."""

import unicodedata

_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
"""Overrides that let a text show in another order than it is written, and so disguise itself."""


def plain(text: str, *, limit: int = 4000) -> str:
    """Return ``text`` without control, format and lone-surrogate characters, blanks folded, at most ``limit`` long."""
    kept = "".join(" " if ch.isspace() else ch for ch in text if ch.isspace() or _is_printable(ch))
    return " ".join(kept.split())[:limit]


def _is_printable(ch: str) -> bool:
    if ch in _BIDI_CONTROLS:
        return False
    if ch == "\u200d":  # joins emoji and some scripts' letters
        return True
    return unicodedata.category(ch) not in {"Cc", "Cf", "Cs", "Co", "Cn"}

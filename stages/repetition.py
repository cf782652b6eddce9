"""Ending the loops of a decoder that is stuck, without losing what people really say again."""

import re
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Protocol

from stages.whisper import Decoded, Piece
from stages.whisper_text import MIN_LOGPROB

USUAL_TOKENS_PER_S, MOST_TOKENS_PER_S, SPARE_TOKENS = 5, 10, 8
"""Known speech took up to 4 tokens a second in English and 5 in Mandarin, a short answer some more. Nobody says more
than 8 (fast Mandarin and French)."""

USUAL_BYTES_PER_S = 20
"""English of 4 words a second, Mandarin of 7 characters: faster than anybody speaks who says something once more."""

PENALTY = 1.1
"""Ends loops that nothing else ends. Not for a first try: over known English it makes 1.6 (tiny.en) to 9 times
(base, five readings) as many wrong words, and may drop what people really say again."""

HASTE = 0.75
"""Of the time that something took, for saying it once more: people speed up a little."""

_UNIT = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
"""A word; in Chinese and Japanese, a character."""


class Ask(Protocol):
    """Decodes the same window again and again."""

    def __call__(self, *, max_tokens: int, repetition_penalty: float) -> Decoded:
        """See ``Whisper.decode``."""
        ...


def usual_tokens(duration_s: float) -> int:
    """Return how many tokens so much speech takes, but for very fast speakers."""
    return SPARE_TOKENS + ceil(USUAL_TOKENS_PER_S * duration_s)


def most_tokens(duration_s: float) -> int:
    """Return how many tokens so much speech can take at all."""
    return SPARE_TOKENS + ceil(MOST_TOKENS_PER_S * duration_s)


def decode_unlooped(ask: Ask, *, duration_s: float) -> Decoded:
    """Return what ``ask`` reads in ``duration_s`` seconds of speech, without its loops. ``tokens`` counts both tries.

    A reading that ends by itself is the only one. One that goes on past its usual length either has reached the end of
    the sound (what follows is cut off), or turns in a circle within it (it is read again with a penalty on repeating;
    the circle is cut off where that does not end well), or belongs to somebody who speaks fast (it is read again, to
    the end).
    """
    limit = usual_tokens(duration_s)
    first = ask(max_tokens=limit, repetition_penalty=1.0)
    kept = within(first.pieces, duration_s=duration_s)
    if first.tokens < limit or len(kept) < len(first.pieces):
        return replace(first, pieces=unlooped(kept) if _is_hasty(kept, duration_s) else kept)
    circle = unlooped(kept)
    if circle == kept:
        return _heard_out(ask, first, duration_s=duration_s)
    second = ask(max_tokens=limit, repetition_penalty=PENALTY)
    again = within(second.pieces, duration_s=duration_s)
    tokens = first.tokens + second.tokens
    if second.tokens < limit and second.mean_logprob > MIN_LOGPROB and not _is_hasty(again, duration_s):
        return replace(second, pieces=again, tokens=tokens)
    return replace(first, pieces=circle, tokens=tokens)


def _heard_out(ask: Ask, first: Decoded, *, duration_s: float) -> Decoded:
    """Return the whole of what ``first`` only begins."""
    limit = most_tokens(duration_s)
    second = ask(max_tokens=limit, repetition_penalty=1.0)
    kept = within(second.pieces, duration_s=duration_s)
    pieces = unlooped(kept) if second.tokens >= limit else kept
    return replace(second, pieces=pieces, tokens=first.tokens + second.tokens)


def within(pieces: Sequence[Piece], *, duration_s: float) -> tuple[Piece, ...]:
    """Return the pieces up to the one that starts behind the sound, or only repeats into the silence behind it.

    What repeats the piece before it would take as long to say again: ``HASTE`` of that time must be left.
    """
    kept: list[Piece] = []
    for piece in pieces:
        if piece.start_s >= duration_s or (kept and _is_echo(piece, kept[-1], duration_s=duration_s)):
            break
        kept.append(piece)
    return tuple(kept)


def unlooped(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return ``pieces`` up to the end of a phrase, if from there to the end it is only said over and over again.

    For readings that were broken off: a circle has no other end. Its last turn may be half a one.
    """
    units = [(index, match) for index, piece in enumerate(pieces) for match in _UNIT.finditer(piece.text)]
    end = _circle([match.group().casefold() for _, match in units])
    if end is None:
        return tuple(pieces)
    index, last = units[end - 1]
    return (*pieces[:index], pieces[index]._replace(text=pieces[index].text[: last.end()]))


def _circle(units: Sequence[str]) -> int | None:
    """Return where the first turn of the circle ends in which ``units`` end, None when they do not.

    The shortest phrase is looked for; two turns make a circle, of a single unit four.
    """
    for size in range(1, len(units) // 2 + 1):
        begin = len(units) - size
        while begin > 0 and units[begin - 1] == units[begin - 1 + size]:
            begin -= 1
        turns = (len(units) - begin) / size
        if turns >= (2 if size > 1 else 4):
            return begin + size
    return None


def _is_hasty(pieces: Sequence[Piece], duration_s: float) -> bool:
    text = " ".join(piece.text.strip() for piece in pieces)
    return len(text.encode()) > USUAL_BYTES_PER_S * duration_s


def _is_echo(piece: Piece, before: Piece, *, duration_s: float) -> bool:
    """Whether ``piece`` repeats ``before`` (or its beginning) where there is no time left for it."""
    again, said = _plain(piece.text), _plain(before.text)
    took_s = (piece.start_s if before.end_s is None else before.end_s) - before.start_s
    share = len(again) / len(said) if said else 0.0
    return bool(again) and said.startswith(again) and duration_s - piece.start_s < HASTE * share * took_s


def _plain(text: str) -> str:
    return "".join(match.group().casefold() for match in _UNIT.finditer(text))

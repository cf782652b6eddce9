"""Keeping what was said of what Whisper wrote: guards against invention, tidy text, sentences with times."""

import re
import zlib
from collections.abc import Iterator

from stages.whisper import Decoded, Piece

MIN_LOGPROB = -1.0
MAX_NO_SPEECH = 0.3
"""Text is dropped when both are missed. Measured on the reference clips: unsure but real speech has a no-speech
probability below 0.25; grunts, water and noise, once they pass the voice detector, lie above 0.45."""

HOPELESS_LOGPROB = -1.5
"""Text below it is dropped in any case: right transcripts lie above -1.25."""

MAX_COMPRESSION, MAX_BYTES_PER_S = 2.4, 30
"""Text that zlib shrinks further (the threshold of Whisper's reference code) is a loop when nobody could say so much:
English of 5 words a second, Mandarin of 10 characters. At a human pace it is somebody who says the same again."""

_LOOP = re.compile(r"(\S.{1,79}?)(\s?)(?:\1\2){3,}\1")
_NOT_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W\da-z])|(?<=[。！？])(?!$)")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|[A-Z])\.$")


def said(decoded: Decoded, *, duration_s: float, prompt: str) -> tuple[Piece, ...]:
    """Return the pieces of ``decoded`` that can be believed, tidied; none when the whole is made up.

    ``duration_s`` is the length of the speech that was listened to: what starts behind it was read into the padding.
    """
    heard = (piece._replace(text=tidy(piece.text)) for piece in decoded.pieces if piece.start_s < duration_s)
    pieces = tuple(piece for piece in heard if any(map(str.isalnum, piece.text)))
    text = " ".join(piece.text for piece in pieces)
    unsure = decoded.mean_logprob < MIN_LOGPROB and decoded.no_speech > MAX_NO_SPEECH
    if unsure or decoded.mean_logprob < HOPELESS_LOGPROB or is_loop(text, duration_s=duration_s) or text in prompt:
        return ()
    return pieces


def tidy(text: str) -> str:
    """Return ``text`` on one line, without control characters, and what is said five times in a row only twice."""
    line = " ".join(_NOT_TEXT.sub(" ", text).split())
    return _LOOP.sub(r"\1\2\1", line)


def is_loop(text: str, *, duration_s: float) -> bool:
    """Whether ``text`` repeats itself as only a stuck decoder does, in so many seconds."""
    data = text.encode()
    return len(data) > max(MAX_COMPRESSION * len(zlib.compress(data)), MAX_BYTES_PER_S * duration_s)


def sentences(piece: Piece, *, duration_s: float) -> Iterator[tuple[float, float, str]]:
    """Yield start, end and text of every sentence, within the first ``duration_s`` seconds.

    Whisper stamps pieces, often of several sentences; the time between is shared out by their letters.
    """
    end_s = duration_s if piece.end_s is None else min(piece.end_s, duration_s)
    start_s = min(piece.start_s, end_s)
    parts = list(_split(piece.text))
    per_letter_s = (end_s - start_s) / max(1, sum(map(len, parts)))
    for part in parts:
        next_s = start_s + per_letter_s * len(part)
        yield start_s, min(next_s, end_s), part
        start_s = min(next_s, end_s)


def _split(text: str) -> Iterator[str]:
    sentence = ""
    for part in _SENTENCE_END.split(text):
        sentence = f"{sentence} {part}".strip()
        if not _ABBREVIATION.search(sentence):
            yield sentence
            sentence = ""
    if sentence:
        yield sentence

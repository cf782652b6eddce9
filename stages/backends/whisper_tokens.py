"""From the tokens of a Whisper model to text with times: the same for every runtime."""

from collections.abc import Callable, Iterator, Sequence

from stages.whisper import Piece

STEP_S = 0.02
"""Time stamps are tokens, one for each of these steps."""


def read_pieces(tokens: Sequence[int], *, first_stamp: int, to_text: Callable[[list[int]], str]) -> Iterator[Piece]:
    """Yield the text between time stamps. ``first_stamp`` is the token that says 0 s, the lowest of them."""
    start_s = 0.0
    words: list[int] = []
    for token in tokens:
        if token < first_stamp:
            words.append(token)
            continue
        stamp_s = (token - first_stamp) * STEP_S
        if words:
            yield Piece(start_s, stamp_s, to_text(words))
            words = []
        start_s = stamp_s
    if words:
        yield Piece(start_s, None, to_text(words))

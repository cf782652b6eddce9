"""What a Whisper model is asked, whatever runs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stages.mel import Mel


class Piece(NamedTuple):
    """Text between two time stamps of one window, in seconds of that window; ``end_s`` None: not closed."""

    start_s: float
    end_s: float | None
    text: str


FINISHED_READINGS = 2
"""A search with several beams ends when so many readings have ended. Waiting for all of them (the usual rule) finds no
better ones, and lets the last one ramble on up to the limit of tokens."""


Encoded = object
"""What a model's encoder made of a window: for ``languages`` and ``decode`` of the same model, as often as wanted."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one window says. ``mean_logprob`` is per token, the end of the text included.

    ``tokens`` is the length of the reading that was chosen, time stamps included.
    """

    pieces: tuple[Piece, ...]
    mean_logprob: float
    no_speech: float
    tokens: int = 0


class Whisper(Protocol):
    """One loaded model. Its methods may be called from several threads at once and do not mutate their input.

    A window is encoded once, whatever is asked about it then. Spectrograms may be shorter than the 30 s Whisper was
    trained on: an encoder's cost is its window. Everything raises ``StageError`` when the runtime fails.
    """

    @property
    def name(self) -> str:
        """Weights, runtime and precision."""
        ...

    @property
    def mel_bins(self) -> int:
        """Rows of the spectrogram it reads."""
        ...

    def encode(self, mel: Mel) -> Encoded:
        """Return what ``languages`` and ``decode`` are asked about."""
        ...

    def languages(self, encoded: Encoded) -> Mapping[str, float]:
        """Return the probability of every language it knows, by ISO 639-1 code. For multilingual models only."""
        ...

    def decode(
        self,
        encoded: Encoded,
        *,
        language: str,
        prompt: str,
        max_tokens: int,
        beams: int,
        repetition_penalty: float = 1.0,
    ) -> Decoded:
        """Write down what is said, with time stamps, following the ``beams`` likeliest readings (1: greedily).

        ``prompt`` is text that went before, "" for none. At most ``max_tokens`` tokens, time stamps included. English
        models take ``en`` only. ``repetition_penalty`` above 1 makes tokens that were said less likely.
        """
        ...

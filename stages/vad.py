"""Where in the sound somebody speaks."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import SAMPLE_RATE_HZ, AudioClip, Samples
from schemas.perception import SpeechSpan
from stages.base import Compute

FRAME = 512
FRAME_S = FRAME / SAMPLE_RATE_HZ

MIN_LEVEL = 10 ** (-60 / 20)
"""Quieter frames hold no voice that anybody could follow: 60 dB below full scale, root mean square."""

VOICE, MAYBE_VOICE = 0.5, 0.35
"""A stretch begins where the network is sure and lasts while it is not sure of the contrary (Silero's own defaults)."""

MIN_VOICE_S = 0.25
"""A syllable. Plucked strings and piano chords reach ``VOICE`` too, but for one or two frames."""

MIN_PAUSE_S = 0.3
"""Shorter pauses lie within a sentence."""

PAD_S = 0.2
"""Soft consonants before and after; without it Whisper loses first and last words."""

MAX_SPAN_S = 15.0
"""Longer stretches are split where the voice is weakest. Half of Whisper's window, so that work stays divisible."""

Frames = npt.NDArray[np.float32]
"""One value for every 32 ms."""

Stretch = tuple[int, int]
"""First frame, and the one after the last."""


class Vad:
    """The ``vad`` stage: a sound track in, the stretches that hold a voice out, ascending and apart.

    Silero's network tells voices from music, water, hum, noise and tones; the level keeps digital silence and the
    rustle of an encoder from it altogether.
    """

    name = "vad"

    def __init__(self, model_path: Path, compute: Compute) -> None:
        """Load the network. Raises ``ConfigurationError``."""
        from stages.backends.silero import SileroVad

        self._network = SileroVad(model_path, compute=compute)
        self.model = self._network.name

    def run(self, unit: AudioClip, *, deadline: Deadline) -> tuple[SpeechSpan, ...]:
        """Return the spans, in seconds of the clip's sound (0 is its first sample)."""
        if deadline.expired:
            raise DeadlineExceeded
        loud = levels(unit.samples) >= MIN_LEVEL
        if not loud.any():
            return ()
        voice = self._network.probabilities(unit.samples, deadline=deadline)
        return tuple(find_speech(voice * loud, duration_s=unit.duration_s))


def levels(samples: Samples) -> Frames:
    """Return the root mean square of every frame, the last one filled up with silence."""
    padded = np.zeros(-(-len(samples) // FRAME) * FRAME, np.float32)
    padded[: len(samples)] = samples
    squares = np.square(padded, out=padded).reshape(-1, FRAME)
    level: Frames = np.sqrt(squares.mean(axis=1))
    return level


def find_speech(voice: Frames, *, duration_s: float) -> Iterator[SpeechSpan]:
    """Yield the spans that the probabilities ``voice`` tell of: joined over short pauses, padded, none too long."""
    stretches = [s for s in _joined(_sure(voice)) if (s[1] - s[0]) * FRAME_S >= MIN_VOICE_S]
    pieces = [piece for stretch in stretches for piece in _split(voice, stretch)]
    # Padding stops half way to the neighbour.
    fences = [0.0, *((a[1] + b[0]) / 2 * FRAME_S for a, b in pairwise(pieces)), duration_s]
    for (first, last), low_s, high_s in zip(pieces, fences, fences[1:], strict=False):
        yield SpeechSpan(max(low_s, first * FRAME_S - PAD_S), min(high_s, last * FRAME_S + PAD_S))


def _sure(voice: Frames) -> Iterator[Stretch]:
    """Yield the runs of frames that may hold a voice and of which at least one surely does."""
    edges = np.flatnonzero(np.diff(voice >= MAYBE_VOICE, prepend=False, append=False))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if voice[first:last].max() >= VOICE:
            yield first, last


def _joined(stretches: Iterator[Stretch]) -> list[Stretch]:
    """Join what only a short pause parts."""
    joined: list[Stretch] = []
    for first, last in stretches:
        if joined and (first - joined[-1][1]) * FRAME_S < MIN_PAUSE_S:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _split(voice: Frames, stretch: Stretch) -> Iterator[Stretch]:
    """Yield ``stretch`` in pieces of at most ``MAX_SPAN_S``, cut at the weakest frame of the second half of each."""
    first, last = stretch
    longest = int(MAX_SPAN_S / FRAME_S)
    while last - first > longest:
        middle = first + longest // 2
        cut = middle + int(voice[middle : first + longest].argmin())
        yield first, cut
        first = cut
    yield first, last

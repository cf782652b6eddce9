"""A few seconds of real speech that ship with the package, so that what speech costs can be measured at start-up.

Noise will not do: a model is as long at work as it finds words.
"""

import wave
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

import numpy as np

from schemas.media import SAMPLE_RATE_HZ, AudioClip
from schemas.perception import SpeechSpan

SampleLanguage = Literal["en", "zh"]

_SPOKEN: dict[SampleLanguage, SpeechSpan] = {"en": SpeechSpan(0.1, 5.2), "zh": SpeechSpan(0.3, 4.1)}
"""Where in each somebody speaks."""


def sample_file(language: SampleLanguage) -> Traversable:
    """Return where the sample lies."""
    return files("stages") / "data" / f"speech_{language}.wav"


def speech_sample(language: SampleLanguage) -> AudioClip:
    """Return the sample: one voice reading a sentence, mono, four to six seconds."""
    with sample_file(language).open("rb") as file, wave.open(file) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (SAMPLE_RATE_HZ, 1, 2)  # noqa: S101
        samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16)
    return AudioClip(samples.astype(np.float32) / np.float32(32768))


def spoken(language: SampleLanguage, *, share: float = 1.0) -> SpeechSpan:
    """Return the first ``share`` of the stretch that holds the voice."""
    span = _SPOKEN[language]
    return SpeechSpan(span.start_s, span.start_s + share * (span.end_s - span.start_s))

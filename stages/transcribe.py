"""What is said, in whose language, and when."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, exp
from typing import Literal

import numpy as np

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.media import SAMPLE_RATE_HZ, AudioClip, Samples
from schemas.perception import SpeechSpan, Transcript
from schemas.result import SpeechSegment
from stages.mel import FRAMES_PER_S, Mel, log_mel
from stages.repetition import decode_unlooped
from stages.speech_window import MAX_WINDOW_S, Window, cut_windows
from stages.spoken_language import Probabilities, languages_of
from stages.whisper import Whisper
from stages.whisper_text import said, sentences

AsrModel = Literal["auto", "tiny.en", "base"]
"""``auto``: the English model for English, the multilingual one for the rest. ``tiny.en``: English is written down,
speech in other languages is only named, since the English model would invent English for it. ``base``: the multilingual
model for everything."""

SLACK_S, MIN_WINDOW_S = 3.0, 6.0
"""Silence behind the speech, and the shortest window. Whisper was trained on 30 s; with less than this it misses last
words (slack 2 s) or says short ones again and again (window 4 s). Word errors are those of 30 s, at a third of the
cost."""


LISTEN_S, LISTEN_WINDOW_S = 3.0, 4.0
"""Seconds of speech from which the language is told, and the window they are put in."""

PROMPTS = {"zh": "以下是普通话的句子。"}
"""Text pretended to go before. This one ("the following are sentences in Mandarin") brings punctuation and fewer wrong
characters."""

ENGLISH_BEAMS, OTHER_BEAMS = 1, 5
"""Readings followed side by side. Five cost a fifth more than one, since a step's time goes into reading the weights,
and save a third of the wrong characters in Mandarin; in English they change nothing."""


def decoding_work(speech_s: float) -> float:
    """Return what so much speech costs, in seconds of the windows it is put in."""
    return max(speech_s + SLACK_S * ceil(speech_s / MAX_WINDOW_S), MIN_WINDOW_S)


@dataclass(frozen=True, slots=True)
class SpeechTask:
    """Sound, where in it somebody speaks (ascending), and who shall write it down.

    ``language_hint``: ISO 639-1 code of, for instance, the clip's title; tips the scales when the sound leaves doubt.
    ``hasty``: follow one reading, whatever the language.
    """

    audio: AudioClip
    spans: tuple[SpeechSpan, ...]
    model: AsrModel = "auto"
    language_hint: str | None = None
    hasty: bool = False


@dataclass(frozen=True, slots=True)
class HeardTranscript(Transcript):
    """A transcript that knows how much of the speech it covers: ``speech_s`` seconds, all of it when ``complete``."""

    speech_s: float = 0.0
    complete: bool = True


class Transcriber:
    """The ``transcribe`` stage. Mandarin comes out in simplified characters, whichever Whisper wrote."""

    name = "transcribe"

    def __init__(self, *, english: Whisper, multilingual: Whisper) -> None:
        """Take two loaded models; they may be the same one."""
        from opencc import OpenCC

        self._english = english
        self._multilingual = multilingual
        self._simplified = OpenCC("t2s")
        self.model = " + ".join(dict.fromkeys((english.name, multilingual.name)))

    def warm(self) -> None:
        """Run every model once: first calls allocate, and are several times as slow."""
        silence = np.zeros(SAMPLE_RATE_HZ, np.float32)
        self._multilingual.languages(
            self._multilingual.encode(_spectrogram(silence, self._multilingual, window_s=LISTEN_WINDOW_S))
        )
        for whisper in (self._english, self._multilingual):
            mel = _spectrogram(silence, whisper, window_s=MIN_WINDOW_S)
            whisper.decode(whisper.encode(mel), language="en", prompt="", max_tokens=2, beams=1)

    def run(self, unit: SpeechTask, *, deadline: Deadline) -> HeardTranscript:
        """Return what is said, on the clip's time line.

        When the deadline passes between two windows, what there is by then is returned, not ``complete``; raises
        ``DeadlineExceeded`` only when that is nothing.
        """
        windows = cut_windows(unit.spans, self._languages(unit, deadline=deadline))
        readable = [window for window in windows if unit.model != "tiny.en" or window.language == "en"]
        heard: list[tuple[Window, list[SpeechSegment]]] = []
        for window in readable:
            if deadline.expired:
                break
            heard.append((window, list(self._write_down(window, unit))))
        if readable and not heard:
            raise DeadlineExceeded
        worded = [window for window, segments in heard if segments]
        used = dict.fromkeys(self._choose(window.language, unit.model).name for window, _ in heard)
        return HeardTranscript(
            language=_main_language(worded if readable else windows),
            segments=tuple(segment for _, segments in heard for segment in segments),
            model=" + ".join(used) or self.model,
            speech_s=sum(window.duration_s for window, _ in heard),
            complete=len(heard) == len(windows),
        )

    def _choose(self, language: str, model: AsrModel) -> Whisper:
        return self._english if language == "en" and model != "base" else self._multilingual

    def _languages(self, unit: SpeechTask, *, deadline: Deadline) -> list[str]:
        """Return the language of every span. Raises ``DeadlineExceeded``."""

        def listen(span: SpeechSpan) -> Probabilities:
            if deadline.expired:
                raise DeadlineExceeded
            first = round(span.start_s * SAMPLE_RATE_HZ)
            last = round(min(span.end_s, span.start_s + LISTEN_S) * SAMPLE_RATE_HZ)
            samples = unit.audio.samples[first:last]
            mel = _spectrogram(samples, self._multilingual, window_s=LISTEN_WINDOW_S)
            return self._multilingual.languages(self._multilingual.encode(mel))

        return languages_of(unit.spans, listen=listen, hint=unit.language_hint) if unit.spans else []

    def _write_down(self, window: Window, unit: SpeechTask) -> Iterator[SpeechSegment]:
        """Yield the sentences of one window."""
        whisper = self._choose(window.language, unit.model)
        prompt = PROMPTS.get(window.language, "")
        length_s = window.duration_s
        mel = _spectrogram(window.samples(unit.audio), whisper, window_s=max(length_s + SLACK_S, MIN_WINDOW_S))
        beams = ENGLISH_BEAMS if window.language == "en" or unit.hasty else OTHER_BEAMS
        ask = partial(whisper.decode, whisper.encode(mel), language=window.language, prompt=prompt, beams=beams)
        decoded = decode_unlooped(ask, duration_s=length_s)
        for piece in said(decoded, duration_s=length_s, prompt=prompt):
            for start_s, end_s, text in sentences(piece, duration_s=length_s):
                yield SpeechSegment(
                    t_start_s=max(0.0, unit.audio.start_s + window.starts_at(start_s)),
                    t_end_s=max(0.0, unit.audio.start_s + window.ends_at(end_s)),
                    text=self._simplified.convert(text) if window.language == "zh" else text,
                    score=exp(min(0.0, decoded.mean_logprob)),
                    language=window.language,
                )


def _spectrogram(samples: Samples, whisper: Whisper, *, window_s: float) -> Mel:
    frames = 2 * ceil(window_s * FRAMES_PER_S / 2)  # the encoder halves them
    return log_mel(samples, frames=frames, bins=whisper.mel_bins)


def _main_language(windows: Sequence[Window]) -> str | None:
    """Return the language of most seconds."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for window in windows:
        seconds[window.language] += window.duration_s
    return max(seconds, key=seconds.__getitem__, default=None)

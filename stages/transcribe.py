"""What is said, in whose language, and when.

Speech is written down piece by piece, so that each piece can run on a core of its own and leaves its words in the
answer whether or not the others come in time. With time enough a piece is long (``cut_windows``), which reads best;
with a deadline it is short (``cut_pieces``).
"""

from collections import defaultdict
from collections.abc import Sequence
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
from stages.speech_window import Window, cut_windows
from stages.spoken_language import MIN_LISTEN_S, SURE, Probabilities, languages_of, weighted
from stages.whisper import Whisper
from stages.whisper_text import said, sentences

AsrModel = Literal["auto", "tiny.en", "base"]
"""``auto``: the English model for English, the multilingual one for the rest. ``tiny.en``: English is written down,
speech in other languages is only named, since the English model would invent English for it. ``base``: the multilingual
model for everything."""

FOREIGN_LOGPROB = -1.1
"""Below it English words may be another language's: known English lies above -0.85, Mandarin taken for English below
-1.15."""

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
"""Readings followed side by side. Five cost two fifths more than one, since a step's time goes into reading the
weights, and save a third of the wrong characters in Mandarin; in English they change nothing."""


@dataclass(frozen=True, slots=True)
class SpeechTask:
    """Sound, where in it somebody speaks (ascending), and who shall write it down.

    ``language_hint``: ISO 639-1 code of, for instance, the clip's title; tips the scales when the sound leaves doubt.
    """

    audio: AudioClip
    spans: tuple[SpeechSpan, ...]
    model: AsrModel = "auto"
    language_hint: str | None = None


@dataclass(frozen=True, slots=True)
class PieceTask:
    """One piece of speech to be written down.

    ``hasty``: follow one reading, whatever the language. ``check_language``: the piece's language is a guess made from
    other pieces; where the words speak against it, this piece is listened to.
    """

    audio: AudioClip
    window: Window
    model: AsrModel = "auto"
    language_hint: str | None = None
    hasty: bool = False
    check_language: bool = False


@dataclass(frozen=True, slots=True)
class HeardTranscript(Transcript):
    """The transcript of one piece of speech: ``speech_s`` seconds of it, which lie within ``span`` of the clip's sound.

    ``complete``: whether it was written down; speech in a language that the model cannot write is only named.
    """

    speech_s: float = 0.0
    complete: bool = True
    span: SpeechSpan | None = None


def cost_key(language: str, model: AsrModel, *, hasty: bool) -> str:
    """Return what the cost of a piece depends on besides its seconds: which model reads, and how often."""
    if language == "en" and model != "base":
        return "transcribe:en"
    return f"transcribe:other:{1 if hasty or language == 'en' else OTHER_BEAMS}"


class Transcriber:
    """The ``transcribe`` stage: finds the language, cuts, and writes down piece by piece (``run``).

    Mandarin comes out in simplified characters, whichever Whisper wrote.
    """

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
        heard = self._multilingual.encode(_spectrogram(silence, self._multilingual, window_s=LISTEN_WINDOW_S))
        self._multilingual.languages(heard)
        for whisper in (self._english, self._multilingual):
            heard = whisper.encode(_spectrogram(silence, whisper, window_s=MIN_WINDOW_S))
            whisper.decode(heard, language="en", prompt="", max_tokens=2, beams=1, repetition_penalty=1.0)

    def windows(self, unit: SpeechTask, *, deadline: Deadline) -> list[Window]:
        """Return long windows, each in one language, after listening wherever it may change.

        Raises ``DeadlineExceeded``.
        """

        def listen(span: SpeechSpan) -> Probabilities:
            if deadline.expired:
                raise DeadlineExceeded
            return self._listen(unit.audio, span)

        return cut_windows(unit.spans, languages_of(unit.spans, listen=listen, hint=unit.language_hint))

    def language(self, unit: SpeechTask, *, deadline: Deadline) -> str:
        """Return the language of the first stretch that is long enough to tell it: one look at the sound, no more.

        Raises ``DeadlineExceeded``.
        """
        if deadline.expired:
            raise DeadlineExceeded
        long = (span for span in unit.spans if span.end_s - span.start_s >= MIN_LISTEN_S)
        first = next(long, max(unit.spans, key=lambda span: span.end_s - span.start_s))
        heard = weighted(self._listen(unit.audio, first), hint=unit.language_hint)
        return max(heard, key=heard.__getitem__)

    def run(self, unit: PieceTask, *, deadline: Deadline) -> HeardTranscript:
        """Return what is said in one piece, on the clip's time line. Raises ``DeadlineExceeded``.

        Mandarin and the like are checked on the encoder's output that is decoded anyway; English, whose model is
        another one, by how sure the words are.
        """
        if deadline.expired:
            raise DeadlineExceeded
        window = unit.window
        whisper = self._choose(window.language, unit.model)
        if unit.model == "tiny.en" and window.language != "en":
            return HeardTranscript(window.language, (), self.model, 0.0, complete=False, span=window.span)
        encoded = self._encode(window, unit.audio, whisper)
        if unit.check_language and whisper is not self._english:
            window = self._in_its_own_language(window, encoded, hint=unit.language_hint)
        segments, sure = self._write_down(window, encoded, whisper, unit)
        doubtful = not sure and window.duration_s >= MIN_LISTEN_S
        if unit.check_language and doubtful and whisper is self._english and not deadline.expired:
            encoded = self._encode(window, unit.audio, self._multilingual)
            other = self._in_its_own_language(window, encoded, hint=unit.language_hint)
            if other.language != window.language:
                window, whisper = other, self._multilingual
                segments, _ = self._write_down(window, encoded, whisper, unit)
        return HeardTranscript(
            language=window.language,
            segments=tuple(segments),
            model=whisper.name,
            speech_s=window.duration_s,
            span=window.span,
        )

    def _choose(self, language: str, model: AsrModel) -> Whisper:
        return self._english if language == "en" and model != "base" else self._multilingual

    def _listen(self, audio: AudioClip, span: SpeechSpan) -> Probabilities:
        first = round(span.start_s * SAMPLE_RATE_HZ)
        last = round(min(span.end_s, span.start_s + LISTEN_S) * SAMPLE_RATE_HZ)
        mel = _spectrogram(audio.samples[first:last], self._multilingual, window_s=LISTEN_WINDOW_S)
        return self._multilingual.languages(self._multilingual.encode(mel))

    def _in_its_own_language(self, window: Window, encoded: object, *, hint: str | None) -> Window:
        """Return the piece in the language that is surely heard in it, if it is another one."""
        if window.duration_s < MIN_LISTEN_S:
            return window
        heard = weighted(self._multilingual.languages(encoded), hint=hint)
        best = max(heard, key=heard.__getitem__)
        return Window(window.parts, best) if heard[best] >= SURE else window

    def _encode(self, window: Window, audio: AudioClip, whisper: Whisper) -> object:
        window_s = max(window.duration_s + SLACK_S, MIN_WINDOW_S)
        return whisper.encode(_spectrogram(window.samples(audio), whisper, window_s=window_s))

    def _write_down(
        self, window: Window, encoded: object, whisper: Whisper, unit: PieceTask
    ) -> tuple[Sequence[SpeechSegment], bool]:
        """Return the sentences of one window, and whether they sound like its language."""
        prompt = PROMPTS.get(window.language, "")
        length_s = window.duration_s
        beams = ENGLISH_BEAMS if window.language == "en" or unit.hasty else OTHER_BEAMS
        ask = partial(whisper.decode, encoded, language=window.language, prompt=prompt, beams=beams)
        decoded = decode_unlooped(ask, duration_s=length_s)
        segments = [
            self._segment(window, unit.audio, bounds_s=(start_s, end_s), text=text, logprob=decoded.mean_logprob)
            for piece in said(decoded, duration_s=length_s, prompt=prompt)
            for start_s, end_s, text in sentences(piece, duration_s=length_s)
        ]
        return segments, decoded.mean_logprob >= FOREIGN_LOGPROB

    def _segment(
        self, window: Window, audio: AudioClip, *, bounds_s: tuple[float, float], text: str, logprob: float
    ) -> SpeechSegment:
        return SpeechSegment(
            t_start_s=max(0.0, audio.start_s + window.starts_at(bounds_s[0])),
            t_end_s=max(0.0, audio.start_s + window.ends_at(bounds_s[1])),
            text=self._simplified.convert(text) if window.language == "zh" else text,
            score=exp(min(0.0, logprob)),
            language=window.language,
        )


def joined(parts: Sequence[HeardTranscript]) -> Transcript:
    """Return pieces of speech as one transcript, in the order in which they were said."""
    ordered = sorted(parts, key=lambda part: part.span.start_s if part.span else 0.0)
    segments = tuple(segment for part in ordered for segment in part.segments)
    used = dict.fromkeys(part.model for part in ordered)
    return Transcript(_main_language(ordered), segments, " + ".join(used))


def _main_language(parts: Sequence[HeardTranscript]) -> str | None:
    """Return the language of most seconds; pieces without words count only where none could be written down."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for part in [p for p in parts if p.segments] or [p for p in parts if not p.complete]:
        if part.language is not None and part.span is not None:
            seconds[part.language] += part.span.end_s - part.span.start_s
    return max(seconds, key=seconds.__getitem__, default=None)


def _spectrogram(samples: Samples, whisper: Whisper, *, window_s: float) -> Mel:
    frames = 2 * ceil(window_s * FRAMES_PER_S / 2)  # the encoder halves them
    return log_mel(samples, frames=frames, bins=whisper.mel_bins)

"""Cutting speech into the windows that are transcribed one by one, and finding the way back to the clip's time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil

import numpy as np

from schemas.media import SAMPLE_RATE_HZ, AudioClip, Samples
from schemas.perception import SpeechSpan

MAX_WINDOW_S = 15.0
"""Whisper takes up to 27 s and its slack, but nothing can be given up half way through a window."""

MAX_OTHER_WINDOW_S = 8.0
"""The same for languages other than English, whose model is four times as slow: a window stays within half a second,
so that a clip whose deadline passes has its first sentences. Stretches without a pause stay whole."""

PIECE_S = {"en": (6.0, 4.0), "other": (6.0, 4.0, 3.0)}
"""Lengths of pieces where a deadline is near, those that read best first. None holds so much that losing it would lose
all words of a typical clip. Known English is written down with 3 % wrong words in windows of 15 s, 4 % of 6 s, 6 % of
4 s and 18 % of 3 s; Mandarin as well in 6 s as in 15 (9 %), twice as badly in 4 and 3."""

QUIET_S = 0.08
"""As long as the closure before a stop consonant, which is where a word can be cut with the least harm."""

KEPT_PAUSE_S = 1.0
"""So much of a pause stays: it tells sentences apart. The rest would only cost time, and invite invention."""


@dataclass(frozen=True, slots=True)
class Window:
    """Stretches of one language, heard as if one followed the other. ``parts`` are in seconds of the clip's sound."""

    parts: tuple[SpeechSpan, ...]
    language: str

    @property
    def span(self) -> SpeechSpan:
        """From where to where of the clip's sound it reaches."""
        return SpeechSpan(self.parts[0].start_s, self.parts[-1].end_s)

    @property
    def duration_s(self) -> float:
        """Length of what is heard."""
        return sum(map(_length_s, self.parts))

    def samples(self, audio: AudioClip) -> Samples:
        """Return the sound, joined. Does not mutate ``audio``."""
        return np.concatenate([_slice(audio, part) for part in self.parts])

    def starts_at(self, t_s: float) -> float:
        """Return the second of the clip's sound at which something that begins ``t_s`` into the window begins."""
        return self._locate(t_s, at_joint=1)

    def ends_at(self, t_s: float) -> float:
        """Return the second of the clip's sound at which something that ends ``t_s`` into the window ends."""
        return self._locate(t_s, at_joint=0)

    def _locate(self, t_s: float, *, at_joint: int) -> float:
        """Clamp and map ``t_s``; a joint between two parts is the later one's start or the earlier one's end."""
        ends_s = np.cumsum([_length_s(part) for part in self.parts])
        index = int(np.searchsorted(ends_s, t_s + _SAME_S * (2 * at_joint - 1), side="right" if at_joint else "left"))
        index = min(index, len(self.parts) - 1)
        part = self.parts[index]
        return min(max(part.end_s - (float(ends_s[index]) - t_s), part.start_s), part.end_s)


_SAME_S = 1e-6
"""Rounding."""


def cut_windows(spans: Sequence[SpeechSpan], languages: Sequence[str]) -> list[Window]:
    """Return windows that hold all ``spans`` in order, each in one language and no longer than ``MAX_WINDOW_S``.

    ``languages`` has one entry a span. Spans that are longer themselves are chopped.
    """
    windows: list[Window] = []
    for language, run in groupby(zip(spans, languages, strict=True), key=lambda pair: pair[1]):
        chopped = [piece for span, _ in run for piece in _chopped(span)]
        longest_s = MAX_WINDOW_S if language == "en" else MAX_OTHER_WINDOW_S
        windows += [Window(tuple(_joined(group)), language) for group in _even_groups(chopped, longest_s)]
    return windows


def cut_pieces(audio: AudioClip, spans: Sequence[SpeechSpan], language: str, *, longest_s: float) -> list[Window]:
    """Return windows of about ``longest_s`` at most that hold all ``spans`` in order, all in ``language``.

    Cut at pauses where there are some, and elsewhere where the sound is quietest: a word that is cut is lost twice.
    """
    chopped = [part for span in spans for part in _cut_quietly(audio, span, longest_s)]
    return [Window(tuple(_joined(group)), language) for group in _even_groups(chopped, longest_s)]


def piece_count(speech_s: float, *, longest_s: float) -> int:
    """Return in how many pieces so much speech is cut where there are pauses enough."""
    return max(1, ceil(speech_s / longest_s - _SAME_S))


def _cut_quietly(audio: AudioClip, span: SpeechSpan, longest_s: float) -> list[SpeechSpan]:
    """Cut a span in halves, at the quietest moment round its middle, until no part is longer than ``longest_s``."""
    length_s = _length_s(span)
    if length_s <= longest_s:
        return [span]
    middle_s, reach_s = (span.start_s + span.end_s) / 2, length_s / 6
    cut_s = quietest_s(audio, SpeechSpan(middle_s - reach_s, middle_s + reach_s))
    halves = (SpeechSpan(span.start_s, cut_s), SpeechSpan(cut_s, span.end_s))
    return [part for half in halves for part in _cut_quietly(audio, half, longest_s)]


def quietest_s(audio: AudioClip, span: SpeechSpan) -> float:
    """Return the middle of the quietest ``QUIET_S`` within ``span``. Does not mutate ``audio``."""
    samples, width = _slice(audio, span), round(QUIET_S * SAMPLE_RATE_HZ)
    if len(samples) <= width:
        return (span.start_s + span.end_s) / 2
    energy = np.concatenate(([0.0], np.cumsum(np.square(samples, dtype=np.float64))))
    quietest = int((energy[width:] - energy[:-width]).argmin())
    return span.start_s + (quietest + width / 2) / SAMPLE_RATE_HZ


def _chopped(span: SpeechSpan) -> Iterator[SpeechSpan]:
    count = max(1, ceil(_length_s(span) / MAX_WINDOW_S - _SAME_S))
    step_s = _length_s(span) / count
    for i in range(count):
        yield SpeechSpan(span.start_s + i * step_s, span.start_s + (i + 1) * step_s)


def _even_groups(spans: list[SpeechSpan], longest_s: float) -> Iterator[list[SpeechSpan]]:
    """Yield consecutive spans in as few groups as fit, of about the same length: a short rest lacks context."""
    total_s = _heard_s(spans)
    aim_s = total_s / max(1, ceil(total_s / longest_s))
    group: list[SpeechSpan] = []
    for span in spans:
        longer_s = _heard_s([*group, span])
        if group and (longer_s > longest_s or longer_s - _length_s(span) / 2 > aim_s):
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _joined(spans: Iterable[SpeechSpan]) -> list[SpeechSpan]:
    """Return the parts to be heard: short pauses whole, long ones cut down to their two ends."""
    parts: list[SpeechSpan] = []
    for span in spans:
        if not parts:
            parts.append(span)
        elif span.start_s - parts[-1].end_s <= KEPT_PAUSE_S:
            parts[-1] = SpeechSpan(parts[-1].start_s, span.end_s)
        else:
            parts[-1] = SpeechSpan(parts[-1].start_s, parts[-1].end_s + KEPT_PAUSE_S / 2)
            parts.append(SpeechSpan(span.start_s - KEPT_PAUSE_S / 2, span.end_s))
    return parts


def _heard_s(spans: list[SpeechSpan]) -> float:
    return sum(map(_length_s, _joined(spans)))


def _length_s(span: SpeechSpan) -> float:
    return span.end_s - span.start_s


def _slice(audio: AudioClip, span: SpeechSpan) -> Samples:
    return audio.samples[round(span.start_s * SAMPLE_RATE_HZ) : round(span.end_s * SAMPLE_RATE_HZ)]

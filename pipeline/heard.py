"""How much of the speech was written down, and which stretches were not. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.perception import SpeechSpan
from stages.transcribe import HeardTranscript

SHORTEST_S = 0.05
"""Less is rounding at the seams between two pieces, and no syllable."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Seconds of speech found and of it written down; ``unwritten`` is the rest, ascending, in the clip's sound."""

    voice_s: float
    written_s: float
    unwritten: tuple[SpeechSpan, ...]

    @property
    def share(self) -> float:
        """How much of the speech found was written down; nothing of it while none was found."""
        return self.written_s / self.voice_s if self.voice_s else 0.0


def heard(voice: Sequence[SpeechSpan], parts: Iterable[HeardTranscript]) -> Heard:
    """Compare where somebody speaks with the pieces that were written down. Does not mutate."""
    unwritten = list(voice)
    for part in parts:
        if part.complete and part.span is not None:
            written = part.span
            unwritten = [rest for span in unwritten for rest in _without(span, written)]
    rest = tuple(span for span in unwritten if _length_s(span) >= SHORTEST_S)
    voice_s = sum(map(_length_s, voice))
    return Heard(voice_s, voice_s - sum(map(_length_s, rest)), rest)


def _without(span: SpeechSpan, taken: SpeechSpan) -> tuple[SpeechSpan, ...]:
    before = SpeechSpan(span.start_s, min(span.end_s, taken.start_s))
    after = SpeechSpan(max(span.start_s, taken.end_s), span.end_s)
    return tuple(rest for rest in (before, after) if rest.start_s < rest.end_s)


def _length_s(span: SpeechSpan) -> float:
    return span.end_s - span.start_s

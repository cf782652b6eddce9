"""Which share of what is said an answer holds, by clip and by class of clips. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.flow_clips import FlowClip
from benchmarks.samples import Sample
from benchmarks.words import Held, characters_held, words_held

ENGLISH, MANDARIN = "English up to 11 s", "Mandarin of 5-6 s"

CLOSE_S = 0.05
"""Containers say durations to a frame at best."""


@dataclass(frozen=True, slots=True)
class WordClass:
    """Clips that one aim is about, by what is said in them and the set that the manifest puts them in, if any."""

    speech: str
    set: str = ""

    def __str__(self) -> str:
        return f"{self.speech} ({self.set})" if self.set else self.speech


def word_class(clip: FlowClip) -> WordClass | None:
    """Return the class of ``clip``; None where nothing was promised, or the manifest does not tell the words."""
    if clip.truth is None:
        return None
    if clip.language == "en" and clip.seconds <= 11 + CLOSE_S:
        return WordClass(ENGLISH, clip.set)
    if clip.language == "zh" and 5 - CLOSE_S <= clip.seconds <= 6 + CLOSE_S:
        return WordClass(MANDARIN, clip.set)
    return None


def held_by(sample: Sample, clip: FlowClip) -> Held:
    """Return what one answer holds of the words of ``clip``: characters in Mandarin."""
    compare = characters_held if clip.language == "zh" else words_held
    return compare(clip.truth or "", sample.heard)


def held_in(samples: Sequence[Sample], clips: Mapping[str, FlowClip]) -> dict[WordClass, Held]:
    """Return what all answers together hold, by class. Clips of no class are left out."""
    totals: dict[WordClass, Held] = {}
    for sample in samples:
        group = word_class(clips[sample.clip])
        if group is not None:
            totals[group] = totals.get(group, Held()) + held_by(sample, clips[sample.clip])
    return totals


def without_words(samples: Sequence[Sample]) -> list[Sample]:
    """Return the answers that hold no words at all. Something is said in every clip of the benchmark."""
    return [sample for sample in samples if not sample.heard.strip()]

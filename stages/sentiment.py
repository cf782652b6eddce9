"""In which mood a clip's words are: negative, neutral or positive."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.perception import Polarity
from schemas.result import Judgement
from stages.backends.vader import Vader
from stages.backends.valence_zh import ChineseValence

MAX_CHARS = 4000
"""Of one text: two minutes of speech. The rest is not read."""

MAX_SENTENCE_CHARS = 400
"""Both methods add up words, so that endless sentences always end at an extreme."""

NEUTRAL_BELOW = 0.3
"""Polarity of a neutral text, at most. On the development half of benchmarks/text_truth.jsonl one plain word of feeling
(0.36 for "like") is above it and the chance hits of neutral texts (at most 0.23) below."""

WEIGHTS: Mapping[str, float] = {"speech": 1.0, "title": 0.7, "text": 0.5}
"""How far each origin is believed; the others count like on-screen text."""

LEXICON_WEIGHTS: Mapping[str, float] = {"en": 1.0, "zh": 3.0}
LIKELIHOOD_WEIGHT = 3.0
NEUTRAL_BONUS = 0.5
"""How lexicon and language model are added up (``with_likelihood``): the log-likelihood of three moods, fitted on the
development texts of benchmarks/text_truth.jsonl. Right on its held-out texts (60 a language), lexicon, model and both:
English 34, 51 and 53; Chinese 33, 47 and 46."""

_SENTENCE = re.compile(rf"[^.!?。！？\n]{{1,{MAX_SENTENCE_CHARS}}}[.!?。！？]*")


class PolarityMethod(Protocol):
    """Reads one language."""

    name: str

    def polarity(self, sentence: str) -> float:
        """Return the polarity of a sentence in [-1, 1], 0 when nothing in it carries a feeling."""
        ...


@dataclass(frozen=True, slots=True)
class SentimentTask:
    """A text and its language (ISO 639-1), None when it is not known."""

    text: str
    language: str | None


@dataclass(frozen=True, slots=True)
class Feeling:
    """The mood of one text of a clip, as far as ``chars`` characters of it were known; None when it can't be read."""

    origin: str
    polarity: Polarity | None
    chars: int


class Sentiment:
    """The stage: English by VADER, Chinese by a lexicon; other languages get no answer."""

    def __init__(self) -> None:
        self._methods: dict[str, PolarityMethod] = {"en": Vader(), "zh": ChineseValence()}

    @property
    def name(self) -> str:
        """Key in ``FusedResult.stages``."""
        return "sentiment"

    @property
    def model(self) -> str:
        """Names and versions of the methods."""
        return "+".join(method.name for method in self._methods.values())

    def run(self, unit: SentimentTask, *, deadline: Deadline) -> Polarity | None:
        """Return the polarity of the text: the mean over those of its sentences that carry a feeling.

        None when the language is not known or not one of those that can be read, or when there are no words. Raises
        ``DeadlineExceeded``.
        """
        method = self._methods.get((unit.language or "").partition("-")[0].lower())
        sentences = [s for s in _SENTENCE.findall(unit.text[:MAX_CHARS]) if any(map(str.isalpha, s))]
        if method is None or not sentences:
            return None
        felt = []
        for sentence in sentences:
            if deadline.expired:
                raise DeadlineExceeded
            if value := method.polarity(sentence):
                felt.append(value)
        return Polarity(sum(felt) / len(felt) if felt else 0.0, method.name)


def with_likelihood(
    lexicon: Polarity, likelihood: Mapping[str, float], *, language: str | None, model: str
) -> Polarity:
    """Fuse what a lexicon and a language model say of one text; ``likelihood``: log-probabilities of the three moods.

    The two are independent witnesses, so that log-likelihoods are added. The polarity is that of the stronger feeling;
    one as likely as none at all is ``NEUTRAL_BELOW``.
    """
    weight = LEXICON_WEIGHTS.get((language or "").partition("-")[0].lower(), 1.0)
    glad = LIKELIHOOD_WEIGHT * likelihood["positive"] + weight * lexicon.value
    sad = LIKELIHOOD_WEIGHT * likelihood["negative"] - weight * lexicon.value
    neutral = LIKELIHOOD_WEIGHT * likelihood["neutral"] + NEUTRAL_BONUS
    odds = math.exp(min(max(glad, sad) - neutral, 700.0)) * NEUTRAL_BELOW / (1 - NEUTRAL_BELOW)
    value = odds / (1 + odds)
    return Polarity(value if glad >= sad else -value, f"{lexicon.method}+{model}")


def judge(polarities: Mapping[str, Polarity | None], *, whole: bool = True) -> Judgement | None:
    """Fuse the polarities of a clip's texts, by origin (``speech``, ``title``, ``text``), to one verdict.

    A text without any feeling does not speak against one that has it, so neutral texts carry no weight. ``sources``
    holds each text's own polarity in [-1, 1]. None when no text could be read, and instead of neutral when that was not
    the ``whole`` of the clip's words: a feeling may be in the rest.
    """
    sources = {origin: polarity.value for origin, polarity in polarities.items() if polarity is not None}
    if not sources:
        return None
    weights = {origin: WEIGHTS.get(origin, 0.5) for origin, value in sources.items() if abs(value) >= NEUTRAL_BELOW}
    fused = sum(weight * sources[origin] for origin, weight in weights.items()) / (sum(weights.values()) or 1.0)
    if abs(fused) < NEUTRAL_BELOW:
        return Judgement(label="neutral", score=1 - abs(fused), sources=sources) if whole else None
    return Judgement(label="positive" if fused > 0 else "negative", score=abs(fused), sources=sources)

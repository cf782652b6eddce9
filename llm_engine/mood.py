"""In which mood a text is, by a language model: the likelihood of each mood's name after the text."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_engine.base import LabelSet, LLMEngine, PriorityClass, Prompt
from llm_engine.best_effort import best_effort
from llm_engine.prose import evenly, passages
from llm_engine.untrusted import without_commands
from schemas.deadline import Deadline

NEUTRAL = "neutral"

PASSAGE_WIDTHS: Mapping[str, int] = {"en": 220, "zh": 96}
"""By language: about 55 tokens of SmolLM2, which spends 1.8 on a Chinese character. Others are not read: the model has
hardly seen them."""

MAX_PASSAGES = 4
"""Of one text; of more, evenly spaced ones are read. 20 to 60 ms each."""


@dataclass(frozen=True, slots=True)
class Mood:
    """``likelihood``: log-probability of each mood, every one being equally likely beforehand; ``model`` says so."""

    likelihood: Mapping[str, float]
    model: str


async def read_mood(
    text: str, *, llm: LLMEngine, moods: LabelSet, language: str | None, deadline: Deadline, priority: PriorityClass
) -> Mood | None:
    """Return the mood of ``text``.

    That of the passages that carry a feeling, on average: one without does not speak against one that has it. None for
    a language that cannot be read, without words, and when no passage was read by ``deadline``.
    """
    language = (language or "").partition("-")[0].lower()
    if language not in PASSAGE_WIDTHS:
        return None
    parts = evenly(passages(without_commands(text), at_most=PASSAGE_WIDTHS[language]), MAX_PASSAGES)
    prompts = (Prompt(moods.name, "In which mood is this?", part, language) for part in parts)
    asked = (
        best_effort(llm.score(prompt, moods, deadline=deadline, priority=priority), deadline=deadline)
        for prompt in prompts
    )
    read = [dict(zip(moods.labels, scores, strict=True)) for scores in await asyncio.gather(*asked) if scores]
    felt = [mood for mood in read if max(mood, key=mood.__getitem__) != NEUTRAL]
    return Mood(_mean(felt or read), llm.model) if read else None


def _mean(moods: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Return the mean of the log-probabilities, normalised."""
    mean = {label: sum(mood[label] for mood in moods) / len(moods) for label in moods[0]}
    total = math.log(sum(map(math.exp, mean.values())))
    return {label: score - total for label, score in mean.items()}

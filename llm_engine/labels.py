"""The closed vocabularies of text understanding, read from ``labels.toml``."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from llm_engine.base import LabelSet

SAFE = "safe"
"""The label of ``Vocabulary.safety`` that all others are kinds of harm against."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a clip's words are sorted into. ``safety`` holds ``SAFE`` and the kinds of harm."""

    topics: LabelSet
    safety: LabelSet
    moods: LabelSet


def load_vocabulary() -> Vocabulary:
    """Read the vocabulary that ships with the project.

    Every topic also describes something safe: without them, harmless talk of money, kitchen knives or game bosses lies
    nearer to the harms than to a handful of safe phrases.
    """
    tables: dict[str, dict[str, list[str]]] = tomllib.loads(
        files("llm_engine").joinpath("labels.toml").read_text("utf-8")
    )
    topics, safety, moods = (
        {label: tuple(phrases) for label, phrases in tables[name].items()} for name in ("topics", "safety", "mood")
    )
    safety[SAFE] += tuple(phrase for phrases in topics.values() for phrase in phrases)
    return Vocabulary(LabelSet("topics", topics), LabelSet("safety", safety), LabelSet("mood", moods))

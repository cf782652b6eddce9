"""How far a model's sentence can be trusted: no further than the words it was given."""

import re
from collections.abc import Set as AbstractSet
from importlib.resources import files

from llm_engine.extractive import MAX_CHARS
from llm_engine.prose import plain, sentences
from llm_engine.untrusted import holds_command, without_commands

MIN_CONTENT_WORDS = 3
MIN_OVERLAP = 0.8
"""Share of a sentence's content words that must stand in the data. At 0.8 one word in five may be its own, and no
made-up subject passes."""

_MIN_STEM = 4
_DENIALS = frozenset({"no", "not", "never", "none", "without", "cannot", "nobody", "nothing"})
_DENIAL = re.compile(r"n['’]t\b")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_WHOLE = re.compile(r"[.!?。！？]['\"”’]?$")
_ENDING = re.compile(r"(?:['’]s|ing|ed|es|s|e)$")


class FaithfulnessCheck:
    """Finds the sentence in a model's English answer that says what the data says. Immutable."""

    def __init__(self) -> None:
        text = files("llm_engine").joinpath("data", "stopwords_en.txt").read_text("utf-8")
        self._stop_words = frozenset(w for line in text.splitlines() if not line.startswith("#") for w in line.split())

    def sentence(self, written: str, *, data: str, title: str = "") -> str:
        """Return the first faithful sentence of ``written``; empty when there is none.

        It ends like a sentence, is not the title again, and nearly all its content words (and every word that denies)
        stand in ``data``. An answer that holds a command is not believed at all.
        """
        if holds_command(written):
            return ""
        known, named = self._content(without_commands(data)), self._content(title)
        whole = (s for s in sentences(plain(written)) if _WHOLE.search(s) and len(s) <= MAX_CHARS)
        return next((s for s in whole if self._is_faithful(s, known=known, named=named)), "")

    def _is_faithful(self, sentence: str, *, known: AbstractSet[str], named: AbstractSet[str]) -> bool:
        words = self._content(sentence)
        return (
            len(words) >= MIN_CONTENT_WORDS
            and not words <= named
            and len(words & known) >= MIN_OVERLAP * len(words)
            and words & _DENIALS <= known
        )

    def _content(self, text: str) -> set[str]:
        """Return the words that carry meaning, without their endings."""
        words = _WORD.findall(_DENIAL.sub(" not", text.lower()))
        return {_stem(word) for word in words if word in _DENIALS or word not in self._stop_words}


def _stem(word: str) -> str:
    return _ENDING.sub("", word) if len(word) > _MIN_STEM and word not in _DENIALS else word

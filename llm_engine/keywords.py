"""Keywords: the few words and phrases that say what a clip is about. Deterministic, without a model of the language.

English, and whatever is written in letters with blanks between the words: phrases are what lies between stop words and
punctuation (the idea of RAKE; Rose et al. 2010). Chinese: runs of nouns, cut and tagged by jieba.
A phrase weighs more when it is said again, when it stands in the title, and when it is a name.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from llm_engine.prose import plain

MAX_KEYWORDS = 8
MAX_CHARS = 40
"""Of one keyword; also keeps out addresses, hashes and shouting without blanks."""

_MAX_WORDS = 3
_MAX_NAME_WORDS = 5
_MAX_HAN = 10
_TEXT_CHARS = 2000
"""Of one text: 2 ms at the most."""

_NAME_BONUS = 0.6
"""For capitals inside a sentence, acronyms and words of letters and digits (iPhone15)."""

_LENGTH_BONUS = 0.25
"""For each further word: "space telescope" says more than "telescope", but not twice as much."""

_LATER_DISCOUNT = 0.01
"""For each phrase before it: of equals, the first wins."""

_RUN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+|[^\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_WORD = re.compile(r"[^\W_]+(?:['’&.+-][^\W_]+)*[+#]*")
_SEPARATOR = re.compile(r"[^\s'’&.+-]|\.\s|\s-|-\s")
_POSSESSIVE = re.compile(r"['’]s$")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n\"“(]\s*)$")
_LISTED_LANGUAGES = frozenset({None, "en", "zh"})
"""Those with a list of stop words. In others only what is written like a name can be told from the rest."""

_HAN_NOUNS = frozenset({"n", "nr", "ns", "nt", "nz", "ng", "nrt", "nrfg", "vn", "j", "l", "i", "an"})


@dataclass(frozen=True, slots=True)
class Source:
    """A text, how much its words count, and the language they are in, if known (ISO 639-1)."""

    text: str
    weight: float = 1.0
    language: str | None = None


@dataclass(frozen=True, slots=True)
class _Phrase:
    words: tuple[str, ...]
    text: str
    bonus: float

    @property
    def key(self) -> str:
        return " ".join(_stem(word) for word in self.words)


class KeywordFinder:
    """Finds keywords. Thread-safe: nothing changes after construction (0.1 s, 33 MB for the Chinese dictionary)."""

    def __init__(self) -> None:
        from rjieba import Jieba

        self._jieba = Jieba()
        self._stop_words = _word_list("stopwords_en.txt")
        self._stop_nouns = _word_list("stopwords_zh.txt")
        self._nominal_verbs = _word_list("nominal_verbs_zh.txt")
        self._jieba.tag("预热")

    def find(self, sources: Sequence[Source]) -> tuple[str, ...]:
        """Return at most ``MAX_KEYWORDS`` keywords of ``sources``, best first, written as they were found."""
        scores: dict[str, float] = {}
        spellings: dict[str, str] = {}
        for source in sources:
            for rank, phrase in enumerate(self._phrases_of(source)):
                value = (1 + phrase.bonus + _LENGTH_BONUS * (len(phrase.words) - 1)) / (1 + _LATER_DISCOUNT * rank)
                scores[phrase.key] = scores.get(phrase.key, 0.0) + source.weight * value
                spellings.setdefault(phrase.key, phrase.text)
        return _without_repetition(sorted(scores, key=lambda key: -scores[key]), spellings)

    def _phrases_of(self, source: Source) -> Iterator[_Phrase]:
        text = plain(source.text, max_chars=_TEXT_CHARS)
        names_only = source.language not in _LISTED_LANGUAGES
        for run in _RUN.finditer(text):
            if _is_han(run[0]):
                yield from self._noun_phrases(run[0])
            else:
                yield from self._word_phrases(text, run, names_only=names_only)

    def _noun_phrases(self, run: str) -> Iterator[_Phrase]:
        nouns: list[str] = []
        for word, tag in (*self._jieba.tag(run), ("", "x")):
            noun = (tag in _HAN_NOUNS or word in self._nominal_verbs) and word not in self._stop_nouns
            if not noun or len("".join(nouns)) + len(word) > _MAX_HAN:
                yield from _han_phrase(nouns)
                nouns = []
            if noun:
                nouns.append(word)

    def _word_phrases(self, text: str, run: re.Match[str], *, names_only: bool) -> Iterator[_Phrase]:
        group: list[re.Match[str]] = []
        for word in _WORD.finditer(text, run.start(), run.end()):
            telling = not self._is_empty(word[0]) and (not names_only or _is_name(text, word))
            if not telling or not _continues(text, group, word):
                yield from _latin_phrase(text, group)
                group = []
            if telling:
                group.append(word)
        yield from _latin_phrase(text, group)

    def _is_empty(self, word: str) -> bool:
        bare = _POSSESSIVE.sub("", word.lower().replace("’", "'"))
        return bare in self._stop_words or len(bare) < 2 or not any(map(str.isalpha, bare)) or bare.endswith("ly")


def _continues(text: str, group: list[re.Match[str]], word: re.Match[str]) -> bool:
    """Whether ``word`` still belongs to the phrase: nothing stands between, and it is not too long already."""
    if not group:
        return True
    named = group[-1][0][0].isupper() and word[0][0].isupper()
    if len(group) >= (_MAX_NAME_WORDS if named else _MAX_WORDS):
        return False
    return not _SEPARATOR.search(text, group[-1].end(), word.start())


def _han_phrase(nouns: list[str]) -> Iterator[_Phrase]:
    text = "".join(nouns)
    if len(text) >= 2:
        yield _Phrase(tuple(nouns), text, 0.0)


def _latin_phrase(text: str, group: list[re.Match[str]]) -> Iterator[_Phrase]:
    if not group:
        return
    words = tuple(word[0] for word in group)
    span = _POSSESSIVE.sub("", " ".join(text[group[0].start() : group[-1].end()].split()))
    if len(span) <= MAX_CHARS:
        yield _Phrase(words, span, _NAME_BONUS if any(_is_name(text, word) for word in group) else 0.0)


def _is_name(text: str, word: re.Match[str]) -> bool:
    """Whether ``word`` is written like a name: NASA, iPhone15, or a capital that no sentence start explains."""
    inner = word[0][1:]
    if any(ch.isupper() or ch.isdigit() for ch in inner):
        return not text.isupper()
    return word[0][0].isupper() and not _SENTENCE_START.search(text, max(0, word.start() - 3), word.start())


def _without_repetition(keys: Iterable[str], spellings: dict[str, str]) -> tuple[str, ...]:
    """Return the spellings of ``keys`` in order, leaving out those that only repeat words of better ones."""
    chosen: list[str] = []
    seen: list[str] = []
    for key in keys:
        if len(chosen) == MAX_KEYWORDS:
            break
        joined = key.replace(" ", "")
        if not any(joined in other or other in joined for other in seen):
            chosen.append(spellings[key])
            seen.append(joined)
    return tuple(chosen)


def _stem(word: str) -> str:
    bare = _POSSESSIVE.sub("", word.casefold().replace("’", "'"))
    return bare[:-1] if len(bare) > 3 and bare.endswith("s") and not bare.endswith("ss") else bare


def _is_han(run: str) -> bool:
    return "\u3400" <= run[0] <= "\u9fff" or "\uf900" <= run[0] <= "\ufaff"


def _word_list(name: str) -> frozenset[str]:
    lines = files("llm_engine").joinpath("data", name).read_text("utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())

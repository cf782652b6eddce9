"""Scores what was said: error rates and the share that is there, of words for English, of characters for Chinese."""

import re
import unicodedata
from dataclasses import dataclass

import jiwer

TITLES = {"mr": "mister", "mrs": "missus", "dr": "doctor"}
ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+")


@dataclass(frozen=True, slots=True)
class Errors:
    """Wrong, missing and invented units against the ``length`` of the truth. Adds up over clips."""

    errors: int = 0
    length: int = 0

    @property
    def rate(self) -> float:
        """Errors per unit of truth; above 1 when more is invented than was said."""
        return self.errors / self.length if self.length else float(self.errors > 0)

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(self.errors + other.errors, self.length + other.length)


@dataclass(frozen=True, slots=True)
class Held:
    """Units of the truth that an answer holds, of ``length``; what is invented beside them is not counted. Adds up."""

    found: int = 0
    length: int = 0

    @property
    def share(self) -> float:
        """Part of the truth that is there, 0 to 1; all of nothing."""
        return self.found / self.length if self.length else 1.0

    def __add__(self, other: "Held") -> "Held":
        return Held(self.found + other.found, self.length + other.length)


@dataclass(frozen=True, slots=True)
class SpeechScore:
    """``words``: the English part, ``characters``: the Chinese part. None where the truth has no such part."""

    words: Errors | None
    characters: Errors | None
    words_held: Held | None = None
    characters_held: Held | None = None


def score_speech(truth: str, heard: str) -> SpeechScore:
    """Compare. A truth in both languages is split by script, and so is what was heard."""
    chinese, english = _split(truth)
    if chinese and english:
        heard_chinese, heard_english = _split(heard)
        return SpeechScore(
            word_errors(english, heard_english),
            character_errors(chinese, heard_chinese),
            words_held(english, heard_english),
            characters_held(chinese, heard_chinese),
        )
    if chinese:
        return SpeechScore(None, character_errors(truth, heard), None, characters_held(truth, heard))
    return SpeechScore(word_errors(truth, heard), None, words_held(truth, heard), None)


def word_errors(truth: str, heard: str) -> Errors:
    """Compare English by words, whatever their case, punctuation, titles and numerals."""
    reference = plain_words(truth)
    found = jiwer.process_words(reference, plain_words(heard))
    return Errors(found.substitutions + found.deletions + found.insertions, len(reference.split()))


def character_errors(truth: str, heard: str) -> Errors:
    """Compare Chinese by characters, without punctuation and spaces. Traditional characters count as wrong."""
    reference = plain_characters(truth)
    found = jiwer.process_characters(reference, plain_characters(heard))
    return Errors(found.substitutions + found.deletions + found.insertions, len(reference))


def words_held(truth: str, heard: str) -> Held:
    """Return how many words of the truth were heard: all that are neither missing nor another word."""
    reference = plain_words(truth)
    found = jiwer.process_words(reference, plain_words(heard))
    return Held(found.hits, len(reference.split()))


def characters_held(truth: str, heard: str) -> Held:
    """Return how many characters of the truth were heard, without punctuation and spaces."""
    reference = plain_characters(truth)
    return Held(jiwer.process_characters(reference, plain_characters(heard)).hits, len(reference))


def plain_words(text: str) -> str:
    """Lower case, numbers and titles in full, no punctuation but the apostrophe inside a word."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    words = re.findall(r"\w+(?:'\w+)*", text)
    return " ".join(_spelled(word) for word in words)


def plain_characters(text: str) -> str:
    """Letters and digits only, lower case."""
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


def _spelled(word: str) -> str:
    if word in TITLES:
        return TITLES[word]
    if word.isascii() and word.isdigit() and len(word) <= 2:
        return _number(int(word))
    return word


def _number(value: int) -> str:
    if value < len(ONES):
        return ONES[value]
    tens, ones = divmod(value, 10)
    return f"{TENS[tens - 2]} {ONES[ones]}" if ones else TENS[tens - 2]


def _split(text: str) -> tuple[str, str]:
    """Return the Chinese part and the part that has letters in another script ("" when there is none)."""
    rest = HAN.sub(" ", text)
    return "".join(HAN.findall(text)), rest if any(char.isalpha() for char in rest) else ""

"""Telling the language of each span by listening to few."""

import pytest

from schemas.perception import SpeechSpan
from stages.spoken_language import LANGUAGES, Probabilities, languages_of


class Ear:
    """Hears what it is told, span by span, and counts."""

    def __init__(self, *truth: Probabilities, length_s: float = 3.0) -> None:
        self.truth = truth
        self.spans = [SpeechSpan(10.0 * i, 10.0 * i + length_s) for i in range(len(truth))]
        self.asked: list[int] = []

    def __call__(self, span: SpeechSpan) -> Probabilities:
        self.asked.append(self.spans.index(span))
        return self.truth[self.asked[-1]]

    def languages(self, hint: str | None = None) -> list[str]:
        return languages_of(self.spans, listen=self, hint=hint)


EN, ZH, FR = {"en": 0.95, "zh": 0.05}, {"zh": 0.99, "en": 0.01}, {"fr": 0.9, "en": 0.1}


def test_one_stretch_is_listened_to_once():
    ear = Ear(EN)
    assert ear.languages() == ["en"]
    assert ear.asked == [0]


def test_speech_in_one_language_is_listened_to_twice():
    ear = Ear(ZH, ZH, ZH, ZH)
    assert ear.languages() == ["zh"] * 4
    assert sorted(ear.asked) == [0, 3]


def test_a_change_is_found():
    assert Ear(EN, ZH).languages() == ["en", "zh"]
    assert Ear(EN, EN, EN, ZH, ZH).languages() == ["en", "en", "en", "zh", "zh"]
    assert Ear(ZH, EN, EN, EN, EN).languages() == ["zh", "en", "en", "en", "en"]


def test_long_speech_is_listened_to_in_between():
    assert Ear(EN, EN, EN, ZH, EN, EN, EN, length_s=5).languages() == ["en", "en", "en", "zh", "en", "en", "en"]


def test_three_languages_are_told_apart():
    assert Ear(EN, FR, ZH).languages() == ["en", "fr", "zh"]


def test_an_unsure_stretch_goes_with_the_others():
    mumbled = {"ja": 0.4, "en": 0.35}
    assert Ear(EN, mumbled).languages() == ["en", "en"]
    assert Ear(mumbled, EN, EN).languages() == ["en", "en", "en"]
    assert Ear(EN, mumbled, ZH).languages() == ["en", "en", "zh"]


def test_short_stretches_are_not_listened_to():
    ear = Ear(EN, ZH)
    ear.spans[1] = SpeechSpan(10, 10.5)
    assert ear.languages() == ["en", "en"]
    assert ear.asked == [0]


def test_when_all_are_short_the_longest_is_listened_to():
    ear = Ear(EN, ZH, EN, length_s=0.5)
    ear.spans[1] = SpeechSpan(10, 11)
    assert ear.languages() == ["zh", "zh", "zh"]


def test_languages_a_small_model_cannot_write_do_not_win():
    assert "cy" not in LANGUAGES.split()
    assert Ear({"cy": 0.6, "en": 0.3}).languages() == ["en"]


@pytest.mark.parametrize(("hint", "language"), [(None, "de"), ("nl", "nl"), ("xx", "de")])
def test_a_hint_tips_the_scales(hint: str | None, language: str):
    assert Ear({"de": 0.4, "nl": 0.35}).languages(hint) == [language]


def test_a_hint_does_not_overrule_what_is_plainly_heard():
    assert Ear(ZH).languages("en") == ["zh"]


def test_nothing_known_is_still_an_answer():
    assert Ear({}).languages()[0] in LANGUAGES.split()

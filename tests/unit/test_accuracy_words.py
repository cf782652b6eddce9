"""The accuracy report: how speech is scored."""

import pytest

from benchmarks.words import Errors, Held, characters_held, plain_words, score_speech, word_errors, words_held


def test_case_and_punctuation_do_not_count() -> None:
    assert word_errors("How are you doing?", "how are you, doing").errors == 0


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Mr. Dashwood", "mister dashwood"),
        ("2 of 15", "two of fifteen"),
        ("42", "forty two"),
        ("ill-disposed", "ill disposed"),
        ("NASA\N{RIGHT SINGLE QUOTATION MARK}s", "nasa's"),
        ("1961", "1961"),
    ],
)
def test_ways_to_write_the_same_words_are_the_same(written: str, spoken: str) -> None:
    assert plain_words(written) == plain_words(spoken)


def test_every_wrong_missing_and_invented_word_counts() -> None:
    assert word_errors("I like eating cheese on toast", "I like cheese on the roast") == Errors(3, 6)


def test_nothing_heard_is_a_rate_of_one() -> None:
    assert word_errors("ask not", "").rate == 1.0


def test_words_where_none_were_said_are_errors() -> None:
    assert Errors(2, 0).rate == 1.0
    assert Errors(0, 0).rate == 0.0


def test_rates_of_several_clips_add_up_by_length() -> None:
    assert (Errors(1, 10) + Errors(0, 30)).rate == 0.025


def test_chinese_is_scored_by_characters_without_punctuation() -> None:
    score = score_speech("广州市房地产", "广州市，房地产。")
    assert score.words is None
    assert score.characters == Errors(0, 6)


def test_traditional_characters_are_wrong() -> None:
    assert score_speech("广州市", "廣州市").characters == Errors(1, 3)


def test_a_truth_in_two_languages_is_split_by_script() -> None:
    score = score_speech("Ask not. 广州市", "ask what 广州")
    assert score.words == Errors(1, 2)
    assert score.characters == Errors(1, 3)


def test_chinese_invented_on_an_english_clip_counts() -> None:
    assert score_speech("How are you doing?", "How are you doing 你好").words == Errors(1, 4)


def test_words_held_are_those_neither_missing_nor_another() -> None:
    assert words_held("I like eating cheese on toast", "I like cheese on the roast") == Held(4, 6)


def test_invented_words_take_nothing_from_what_is_held() -> None:
    assert words_held("ask not", "and so ask not what").share == 1.0


def test_nothing_heard_holds_nothing_and_of_nothing_said_all_is_held() -> None:
    assert words_held("ask not", "").share == 0.0
    assert Held().share == 1.0


def test_characters_are_held_whatever_the_punctuation() -> None:
    assert characters_held("广州市房地产", "广州市，佛地产。") == Held(5, 6)


def test_what_is_held_is_told_for_both_languages_of_a_clip() -> None:
    score = score_speech("Ask not. 广州市", "ask what 广州")
    assert (score.words_held, score.characters_held) == (Held(1, 2), Held(2, 3))

"""Moods are read in English and Chinese, and neutral texts stay neutral."""

from math import log

import pytest

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from schemas.perception import Polarity
from stages.sentiment import NEUTRAL_BELOW, Sentiment, SentimentTask, judge, with_likelihood


@pytest.fixture(scope="module")
def stage() -> Sentiment:
    return Sentiment()


def polarity(stage: Sentiment, text: str, language: str | None) -> float | None:
    found = stage.run(SentimentTask(text, language), deadline=Deadline.never())
    return None if found is None else found.value


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I am so happy today. This is wonderful news.", "en"),
        ("I like eating cheese on toast.", "en"),
        ("欢迎大家来参加今天的活动", "zh"),
        ("今天太开心了", "zh"),
        ("一点也不无聊", "zh"),
        ("电池很好", "zh"),
    ],
)
def test_glad_words_are_positive(stage: Sentiment, text: str, language: str) -> None:
    value = polarity(stage, text, language)
    assert value is not None
    assert NEUTRAL_BELOW <= value <= 1


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("This is the worst hotel ever, I am so angry.", "en"),
        ("I am not happy with this.", "en"),
        ("服务态度太差，真让人失望", "zh"),
        ("不开心", "zh"),
        ("这件衣服不好看", "zh"),
        ("质量太差", "zh"),
    ],
)
def test_sad_and_angry_words_are_negative(stage: Sentiment, text: str, language: str) -> None:
    value = polarity(stage, text, language)
    assert value is not None
    assert -1 <= value <= -NEUTRAL_BELOW


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The train leaves platform four at ten past nine.", "en"),
        ("ask not what your country can do for you", "en"),
        ("房地产中介协会的分析报告", "zh"),
        ("美国总统爱好出差", "zh"),
        ("火车九点十分从四号站台出发", "zh"),
    ],
)
def test_plain_statements_are_neutral(stage: Sentiment, text: str, language: str) -> None:
    value = polarity(stage, text, language)
    assert value is not None
    assert abs(value) < NEUTRAL_BELOW


@pytest.mark.parametrize(
    ("text", "language"), [("C'est magnifique", "fr"), ("wonderful", None), ("", "en"), ("123 !!!", "en"), ("😀", "zh")]
)
def test_what_cannot_be_read_has_no_polarity(stage: Sentiment, text: str, language: str | None) -> None:
    assert polarity(stage, text, language) is None


def test_regional_language_codes_are_understood(stage: Sentiment) -> None:
    assert polarity(stage, "太棒了", "zh-CN") == polarity(stage, "太棒了", "zh")


def test_an_endless_text_stays_within_bounds(stage: Sentiment) -> None:
    value = polarity(stage, "good " * 100_000, "en")
    assert value is not None
    assert value <= 1


def test_no_sentence_is_read_after_the_deadline(stage: Sentiment) -> None:
    with pytest.raises(DeadlineExceeded):
        stage.run(SentimentTask("I am happy.", "en"), deadline=Deadline(0.0, lambda: 1.0))


def test_a_neutral_title_does_not_speak_against_glad_speech() -> None:
    verdict = judge({"speech": Polarity(0.8, "vader"), "title": Polarity(0.0, "vader")})
    assert verdict is not None
    assert (verdict.label, verdict.score) == ("positive", 0.8)
    assert verdict.sources == {"speech": 0.8, "title": 0.0}


def test_speech_outweighs_what_is_written() -> None:
    verdict = judge({"speech": Polarity(-0.9, "vader"), "text": Polarity(0.6, "vader")})
    assert verdict is not None
    assert verdict.label == "negative"


def test_equal_joy_and_anger_are_neutral() -> None:
    verdict = judge({"speech": Polarity(0.5, "vader"), "title": Polarity(-0.5, "vader")})
    assert verdict is not None
    assert verdict.label == "neutral"


def test_without_any_readable_text_there_is_no_verdict() -> None:
    assert judge({}) is None
    assert judge({"speech": None}) is None


def fused(lexicon: float, *, positive: float, neutral: float, negative: float, language: str = "en") -> float:
    likelihood = {"positive": log(positive), "neutral": log(neutral), "negative": log(negative)}
    return with_likelihood(Polarity(lexicon, "vader"), likelihood, language=language, model="llm").value


def test_a_feeling_without_a_word_for_it_is_heard_by_the_model() -> None:
    assert fused(0.0, positive=0.8, neutral=0.1, negative=0.1) > NEUTRAL_BELOW
    assert fused(0.0, positive=0.1, neutral=0.1, negative=0.8) < -NEUTRAL_BELOW
    assert abs(fused(0.0, positive=0.2, neutral=0.6, negative=0.2)) < NEUTRAL_BELOW


def test_words_of_feeling_in_a_plain_statement_are_overruled() -> None:
    assert abs(fused(0.57, positive=0.15, neutral=0.75, negative=0.1)) < NEUTRAL_BELOW


def test_where_the_model_cannot_tell_the_lexicon_decides() -> None:
    assert fused(0.8, positive=0.34, neutral=0.33, negative=0.33, language="zh-CN") > NEUTRAL_BELOW
    assert fused(-0.8, positive=0.33, neutral=0.33, negative=0.34, language="zh-CN") < -NEUTRAL_BELOW


def test_the_chinese_lexicon_counts_for_more_than_the_english_one() -> None:
    english, chinese = (fused(0.6, positive=0.3, neutral=0.4, negative=0.3, language=code) for code in ("en", "zh"))
    assert chinese > english


@pytest.mark.parametrize("lexicon", [-1.0, 0.0, 1.0])
def test_a_model_that_is_dead_sure_stays_within_bounds(lexicon: float) -> None:
    for value in (
        fused(lexicon, positive=1.0, neutral=1e-300, negative=1e-300),
        fused(lexicon, positive=1e-300, neutral=1.0, negative=1e-300),
        fused(lexicon, positive=1e-300, neutral=1e-300, negative=1.0),
    ):
        assert -1 <= value <= 1


def test_who_said_it_is_named() -> None:
    likelihood = dict.fromkeys(("positive", "neutral", "negative"), log(1 / 3))
    assert with_likelihood(Polarity(0.0, "vader"), likelihood, language="en", model="llm").method == "vader+llm"

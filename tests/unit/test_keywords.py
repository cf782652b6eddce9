"""Keywords are few, short, clean, and said in the clip."""

import pytest

from llm_engine.keywords import MAX_CHARS, MAX_KEYWORDS, KeywordFinder, Source


@pytest.fixture(scope="module")
def finder() -> KeywordFinder:
    return KeywordFinder()


def found(finder: KeywordFinder, text: str, language: str | None = None) -> tuple[str, ...]:
    return finder.find([Source(text, language=language)])


def test_names_come_first_and_keep_their_capitals(finder: KeywordFinder) -> None:
    words = found(finder, "The telescope was built by engineers at NASA in Greenbelt.")
    assert words[:2] == ("NASA", "Greenbelt")
    assert "telescope" in words


def test_names_of_several_words_stay_together(finder: KeywordFinder) -> None:
    assert found(finder, "at the Goddard Space Flight Center today") == ("Goddard Space Flight Center",)


def test_chinese_nouns_become_phrases(finder: KeywordFinder) -> None:
    assert "语音识别模型" in found(finder, "欢迎大家来体验语音识别模型")
    assert "房地产中介协会" in found(finder, "今天房地产中介协会的人来了")


def test_mixed_text_gives_keywords_of_both_scripts(finder: KeywordFinder) -> None:
    words = found(finder, "iPhone15 手机电池评测")
    assert "iPhone15" in words
    assert any("电池" in word for word in words)


def test_what_is_said_again_and_in_the_title_weighs_more(finder: KeywordFinder) -> None:
    sources = [Source("walnut bread", 1.5), Source("first some butter, then some jam, and then walnut bread again")]
    assert finder.find(sources)[0] == "walnut bread"


def test_a_keyword_is_not_repeated_in_another_spelling_or_as_a_part(finder: KeywordFinder) -> None:
    words = found(finder, "Space telescope! The space telescopes. A telescope; SPACE TELESCOPE")
    assert len(words) == 1


def test_the_same_text_always_gives_the_same_keywords(finder: KeywordFinder) -> None:
    text = "A quiet brook runs between mossy rocks near Lisbon. 山里的小溪很清澈。"
    assert len({found(finder, text) for _ in range(5)}) == 1


@pytest.mark.parametrize(
    "text",
    ["", "   ", "😀😀", "00:01:22 2024", "!!!???", "the and of it", "\x00\x1b\x07", "x" * 50_000, "的了吗呢吧"],
)
def test_texts_without_a_subject_have_no_keywords(finder: KeywordFinder, text: str) -> None:
    assert found(finder, text) == ()


def test_keywords_are_few_short_and_printable(finder: KeywordFinder) -> None:
    text = "\u202eEvil\x00 Corp " + " ".join(f"Alpha{i} beta{i}, gamma{i}." for i in range(500)) + "汉字" * 500
    words = found(finder, text)
    assert 0 < len(words) <= MAX_KEYWORDS
    assert all(len(word) <= MAX_CHARS and word.isprintable() for word in words)


def test_in_a_language_without_stop_words_only_names_are_taken(finder: KeywordFinder) -> None:
    assert found(finder, "alors attends, c'est juste pour voir Paris", "fr") == ("Paris",)

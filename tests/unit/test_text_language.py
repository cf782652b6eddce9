"""Languages are named when they can be told, and not guessed when they cannot."""

import pytest

from stages.text_language import TextLanguage


@pytest.fixture(scope="module")
def namer() -> TextLanguage:
    return TextLanguage()


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I like eating cheese on toast.", "en"),
        ("THIS IS AN OPEN MOVIE PROJECT", "en"),
        ("C'est juste pour voir", "fr"),
        ("Esto es una prueba de idioma", "es"),
        ("Это небольшая проверка языка", "ru"),
        ("هذا نص قصير للتجربة", "ar"),
        ("これはテストです", "ja"),
        ("한국어 텍스트입니다", "ko"),
        ("广州市房地产中介协会分析", "zh"),
        ("你好", "zh"),
        ("iPhone 手机评测", "zh"),
    ],
)
def test_the_language_of_a_short_text_is_named(namer: TextLanguage, text: str, language: str) -> None:
    assert namer.of(text) == language


@pytest.mark.parametrize("text", ["", "  ", "ok", "NASA", "1234 00:12", "😀😀😀", "\x00\x00", "\ud800"])
def test_what_belongs_to_no_language_gets_none(namer: TextLanguage, text: str) -> None:
    assert namer.of(text) is None


def test_an_endless_text_is_named_by_its_beginning(namer: TextLanguage) -> None:
    assert namer.of("The quick brown fox jumps over the lazy dog. " * 50_000) == "en"

"""Text from outside becomes clean, bounded units, whatever it is."""

import pytest

from llm_engine.prose import MAX_CHARS, evenly, passages, plain, sentences, width


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  a \t b \n\n  c ", "a b\nc"),
        ("a\x00b\x1b[31mred\x07", "ab[31mred"),
        ("safe\u202etxt.exe\u2066", "safetxt.exe"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("زيارة إلى السوق", "زيارة إلى السوق"),
        ("👩‍👩‍👧 family", "👩‍👩‍👧 family"),
    ],
)
def test_plain_text_keeps_what_people_read_and_nothing_else(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_of_an_endless_text_both_ends_are_kept() -> None:
    text = plain("start " + "x" * 100_000 + " end")
    assert len(text) <= MAX_CHARS + 1
    assert text.startswith("start")
    assert text.endswith("end")


def test_sentences_end_at_full_stops_of_both_scripts_and_at_lines() -> None:
    assert sentences("One. Two! 三。四？\nfive") == ("One.", "Two!", "三。", "四？", "five")


def test_abbreviations_and_numbers_do_not_end_a_sentence() -> None:
    assert sentences("And Mr. John A. Dashwood paid 3.5 pounds.") == ("And Mr. John A. Dashwood paid 3.5 pounds.",)


def test_what_holds_no_letter_is_no_sentence() -> None:
    assert sentences("!!! ... 😀😀\n—\n") == ()


def test_passages_hold_all_words_in_order_and_are_no_wider_than_asked() -> None:
    text = "We went to the market, bought noodles and beef. Then we cooked. " * 9
    parts = passages(text, at_most=60)
    assert all(width(part) <= 60 for part in parts)
    assert " ".join(parts).split() == text.split()


def test_a_text_without_any_break_is_cut_hard() -> None:
    parts = passages("汉" * 100, at_most=60)
    assert "".join(parts) == "汉" * 100
    assert max(map(width, parts)) <= 60


def test_evenly_keeps_the_first_and_the_last() -> None:
    items = [str(i) for i in range(100)]
    chosen = evenly(items, 5)
    assert len(chosen) == 5
    assert (chosen[0], chosen[-1]) == ("0", "99")

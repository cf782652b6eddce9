"""Summaries quote, and say of the pictures only what was seen."""

import numpy as np
import pytest

from llm_engine.extractive import MAX_CHARS, Sight, central_sentence, one_line, scene_sentence, shortened


def test_the_sentence_nearest_to_all_others_is_the_central_one() -> None:
    vectors = np.array([[0.0, 1.0], [1.0, 0.0], [0.8, 0.6]], dtype=np.float32)
    texts = ["Something else entirely here.", "Noodles with beef are cooked here.", "Noodles are cooked by my sister."]
    assert central_sentence(texts, vectors) == 2


def test_of_equals_the_first_is_the_central_one() -> None:
    same = np.array([[1.0, 0.0]] * 3, dtype=np.float32)
    assert central_sentence(["A sentence of some length."] * 3, same) == 0


def test_a_sentence_of_one_word_does_not_stand_for_a_text() -> None:
    vectors = np.array([[1.0, 0.0], [0.9, 0.43589]], dtype=np.float32)
    assert central_sentence(["Okay.", "Today we cook noodles with beef."], vectors) == 1


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("one two three", 3, ("one two three", False)),
        ("one two three", 2, ("one two…", True)),
        ("语音识别模型", 4, ("语音识别…", True)),
        ("", 4, ("", False)),
    ],
)
def test_tokens_are_words_and_chinese_characters(text: str, most: int, expected: tuple[str, bool]) -> None:
    assert shortened(text, max_tokens=most) == expected


def test_a_summary_is_one_short_line() -> None:
    line = one_line("many words\nand lines " * 50)
    assert len(line) <= MAX_CHARS
    assert "\n" not in line
    assert line.endswith("…")


@pytest.mark.parametrize(
    ("sight", "sentence"),
    [
        (Sight("corridor", (("person", 3),)), "A corridor with 3 people."),
        (Sight("office", (("person", 1), ("tv", 1))), "An office with a person and a tv."),
        (Sight(None, (("bus", 2), ("knife", 2), ("mouse", 2), ("car", 9))), "2 buses, 2 knives and 2 mice."),
        (Sight("garden"), "A garden."),
        (Sight(), ""),
    ],
)
def test_the_scene_sentence_says_what_was_seen(sight: Sight, sentence: str) -> None:
    assert scene_sentence(sight) == sentence

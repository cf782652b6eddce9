"""What Whisper made up is dropped, what it heard is tidied and timed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.backends.whisper_tokens import read_pieces
from stages.whisper import Decoded, Piece
from stages.whisper_text import said, sentences, tidy


def heard(*pieces: Piece, logprob: float = -0.3, no_speech: float = 0.05, duration_s: float = 5.0) -> list[str]:
    decoded = Decoded(pieces, mean_logprob=logprob, no_speech=no_speech)
    return [piece.text for piece in said(decoded, duration_s=duration_s, prompt="The following is English.")]


HELLO = Piece(0.0, 2.0, " Hello there.")


def test_confident_text_is_kept():
    assert heard(HELLO, no_speech=0.9) == ["Hello there."]


def test_mumbled_speech_is_kept():
    assert heard(HELLO, logprob=-1.2, no_speech=0.2) == ["Hello there."]


def test_text_that_the_model_itself_doubts_is_dropped():
    assert heard(HELLO, logprob=-1.1, no_speech=0.5) == []
    assert heard(HELLO, logprob=-1.6, no_speech=0.0) == []


def test_text_behind_the_end_of_the_speech_is_dropped():
    assert heard(HELLO, Piece(7.0, 8.0, " Hello there.")) == ["Hello there."]


def test_punctuation_alone_says_nothing():
    assert heard(Piece(0.0, 1.0, " ..."), Piece(1.0, 2.0, " -")) == []


def test_an_echo_of_the_prompt_is_dropped():
    assert heard(Piece(0.0, 1.0, " The following is English.")) == []


def test_a_loop_is_dropped():
    assert heard(*[Piece(i / 9, (i + 1) / 9, " Thanks for watching this video.") for i in range(9)]) == []


def test_what_is_really_said_again_is_kept():
    stop = "Please stand clear of the closing doors."
    assert heard(*[Piece(i, i + 1, f" {stop}") for i in range(5)], duration_s=10.0) == [stop] * 5


def test_a_phrase_that_repeats_within_a_piece_is_shortened():
    assert tidy(" Stop. Stop. Stop. Stop. Stop. Stop.") == "Stop. Stop."
    assert tidy("No, no, no, no. I said no.") == "No, no, no, no. I said no."
    assert tidy("It costs 1000000 in 2000.") == "It costs 1000000 in 2000."


def test_control_characters_are_removed():
    assert tidy("a\x00b\u202ec\n\ufffd d\u200b") == "a b c d"


def test_sentences_share_the_time_by_their_letters():
    piece = Piece(1.0, 4.0, "Go there. Mr. Smith is waiting there.")
    assert [text for *_, text in sentences(piece, duration_s=10)] == ["Go there.", "Mr. Smith is waiting there."]
    (start_s, middle_s, _), (again_s, end_s, _) = sentences(piece, duration_s=10)
    assert (start_s, again_s, end_s) == (1.0, middle_s, pytest.approx(4.0))
    assert 1.5 < middle_s < 2.0


def test_chinese_sentences_end_without_a_space():
    parts = list(sentences(Piece(0, 4, "你好。今天天气很好！"), duration_s=4))
    assert [text for *_, text in parts] == ["你好。", "今天天气很好！"]


@given(st.floats(0, 40), st.none() | st.floats(0, 40), st.text(max_size=80), st.floats(0.1, 30))
def test_sentences_ascend_within_the_speech(start_s: float, end_s: float | None, text: str, duration_s: float):
    found = list(sentences(Piece(start_s, end_s, tidy(text)), duration_s=duration_s))
    edges = [edge for begin_s, finish_s, _ in found for edge in (begin_s, finish_s)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= duration_s for edge in edges)


def test_tokens_are_cut_at_time_stamps():
    tokens = [100, 7, 8, 150, 150, 9, 200, 10]
    pieces = list(read_pieces(tokens, first_stamp=100, to_text=lambda ids: "".join(map(str, ids))))
    assert pieces == [Piece(0.0, 1.0, "78"), Piece(1.0, 2.0, "9"), Piece(2.0, None, "10")]

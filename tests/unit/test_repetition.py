"""Loops end, at a bounded cost; what people say again stays."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.repetition import PENALTY, decode_unlooped, most_tokens, unlooped, usual_tokens, within
from stages.whisper import Decoded, Piece

SOUND_S = 5.0
LIMIT, MOST = usual_tokens(SOUND_S), most_tokens(SOUND_S)

texts = st.lists(st.sampled_from(["you", "can", "do", "for", "your country", "S-", "你", "好"]), max_size=12).map(
    " ".join
)
pieces = st.lists(st.tuples(st.floats(0, 12), st.none() | st.floats(0, 12), texts), max_size=6).map(
    lambda rows: tuple(Piece(*row) for row in sorted(rows, key=lambda row: row[0]))
)


class Stuck:
    """A decoder with one answer a try, and a note of what it was asked."""

    def __init__(self, *answers: tuple[int, Sequence[Piece]], logprob: float = -0.3) -> None:
        self._answers = list(answers)
        self._logprob = logprob
        self.asked: list[tuple[int, float]] = []

    def __call__(self, *, max_tokens: int, repetition_penalty: float) -> Decoded:
        self.asked.append((max_tokens, repetition_penalty))
        tokens, said = self._answers.pop(0)
        return Decoded(tuple(said), self._logprob, 0.0, tokens=min(tokens, max_tokens))

    def says(self) -> list[str]:
        return [piece.text for piece in decode_unlooped(self, duration_s=SOUND_S).pieces]


HELLO = Piece(0.0, 2.0, " Hello there.")
CIRCLE = Piece(0.0, None, " and so my fellow and so my fellow and so")
MANY = Piece(0.0, None, " one two three four five six seven eight nine ten")


def test_a_reading_that_ends_is_the_only_one():
    ask = Stuck((8, [HELLO, HELLO._replace(start_s=2.0, end_s=4.0)]))
    assert ask.says() == [" Hello there.", " Hello there."]
    assert ask.asked == [(LIMIT, 1.0)]


def test_a_loop_behind_the_sound_is_cut_off_without_another_try():
    ask = Stuck((99, [HELLO, *[HELLO._replace(start_s=t, end_s=t + 2) for t in (4.5, 6.0, 8.0)]]))
    assert ask.says() == [" Hello there."]
    assert ask.asked == [(LIMIT, 1.0)]


def test_a_circle_is_read_again_with_a_penalty():
    ask = Stuck((99, [CIRCLE]), (9, [HELLO]))
    assert ask.says() == [" Hello there."]
    assert ask.asked == [(LIMIT, 1.0), (LIMIT, PENALTY)]


def test_a_circle_that_nothing_ends_is_said_once():
    assert Stuck((99, [CIRCLE]), (99, [CIRCLE])).says() == [" and so my fellow"]


def test_a_circle_is_not_replaced_by_what_the_model_itself_doubts():
    assert Stuck((99, [CIRCLE]), (9, [HELLO]), logprob=-1.2).says() == [" and so my fellow"]


def test_a_fast_speaker_is_heard_out():
    ask = Stuck((LIMIT + 5, [MANY]), (LIMIT + 5, [MANY._replace(text=MANY.text + " eleven")]))
    assert ask.says() == [MANY.text + " eleven"]
    assert ask.asked == [(LIMIT, 1.0), (MOST, 1.0)]


def test_what_is_said_twice_needs_the_time_of_two():
    twice = Piece(0.0, 4.9, " We shall not be moved by anybody at all." * 2)
    assert Stuck((20, [twice])).says() == [twice.text]
    hasty = Piece(0.0, 4.9, " We shall not be moved by anybody who is near us at all" * 2)
    assert Stuck((20, [hasty])).says() == [" We shall not be moved by anybody who is near us at all"]
    assert Stuck((99, [CIRCLE]), (20, [hasty])).says() == [" and so my fellow"]


def test_every_try_is_counted():
    assert decode_unlooped(Stuck((99, [CIRCLE]), (9, [HELLO])), duration_s=SOUND_S).tokens == LIMIT + 9


@pytest.mark.parametrize(
    ("text", "once"),
    [
        (" thank you thank you thank", " thank you"),
        (" I said no no no no no", " I said no"),
        ("欢迎大家欢迎大家欢", "欢迎大家"),
        (" Can. Do. can, do!", " Can. Do"),
        (" no no", " no no"),
        (" ask not what you can do", " ask not what you can do"),
    ],
)
def test_a_circle_is_cut_behind_its_first_turn(text: str, once: str):
    assert unlooped([Piece(0.0, None, text)]) == (Piece(0.0, None, once),)


def test_a_circle_may_span_pieces():
    assert unlooped([HELLO, HELLO, HELLO]) == (HELLO._replace(text=" Hello there"),)


def test_an_echo_needs_time_to_be_said():
    def again(start_s: float) -> int:
        return len(within([HELLO, HELLO._replace(start_s=start_s, end_s=start_s + 2)], duration_s=SOUND_S))

    assert (again(2.5), again(4.5), again(6.0)) == (2, 1, 1)


@given(pieces)
def test_only_an_end_is_cut_off(found: tuple[Piece, ...]):
    for kept in (unlooped(found), within(found, duration_s=SOUND_S)):
        assert "".join(piece.text for piece in found).startswith("".join(piece.text for piece in kept))


@given(pieces)
def test_something_of_what_was_said_stays(found: tuple[Piece, ...]):
    assert any(piece.text.strip() for piece in unlooped(found)) == any(piece.text.strip() for piece in found)


@given(st.lists(st.sampled_from("abcdefghij"), min_size=2, max_size=6, unique=True), st.integers(2, 6), st.data())
def test_every_circle_ends_after_one_turn(phrase: list[str], turns: int, data: st.DataObject):
    rest = data.draw(st.integers(0, len(phrase) - 1))
    (cut,) = unlooped([Piece(0.0, None, " ".join(phrase * turns + phrase[:rest]))])
    assert cut.text.split() == phrase


@given(pieces, pieces, st.integers(0, 200), st.integers(0, 200), st.floats(0.2, 20))
def test_tokens_are_bounded_by_seconds(
    first: tuple[Piece, ...], second: tuple[Piece, ...], tokens: int, more: int, duration_s: float
):
    ask = Stuck((tokens, first), (more, second))
    found = decode_unlooped(ask, duration_s=duration_s)
    assert found.tokens <= usual_tokens(duration_s) + most_tokens(duration_s)
    if tokens < usual_tokens(duration_s):
        assert found.tokens == tokens
    if any(penalty > 1 for _, penalty in ask.asked):
        assert found.tokens <= 2 * usual_tokens(duration_s)


def test_limits_ascend():
    seconds = [0.2, 1, 2.5, 5, 15]
    assert all(usual_tokens(a) < usual_tokens(b) for a, b in pairwise(seconds))
    assert all(usual_tokens(s) < most_tokens(s) <= 2 * usual_tokens(s) for s in seconds)


@pytest.mark.parametrize(("left_s", "kept"), [(0.9, 1), (1.0, 1), (1.4, 1), (1.6, 2), (2.0, 2)])
def test_what_is_said_again_needs_most_of_the_time_that_it_took_before(left_s: float, kept: int):
    twice = (Piece(0.0, 2.0, " And so, my friends."), Piece(2.0, 4.0, " And so, my friends."))
    assert len(within(twice, duration_s=2.0 + left_s)) == kept

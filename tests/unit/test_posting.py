"""How much before its deadline an answer must be ready, from what it took the others to be stored."""

import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.service.posting import LONGEST_S, MARGIN_S, START_S, WINDOW, PostingTime

FAST_S, SLOW_S = 0.003, 0.05


def posting(*took_s: float) -> PostingTime:
    learnt = PostingTime()
    for one_s in took_s:
        learnt.observe(one_s)
    return learnt


def reserved_s(*took_s: float) -> float:
    """What is kept in reserve, but for the margin."""
    return posting(*took_s).reserve_s - MARGIN_S


def test_until_the_first_answers_have_told_a_default_is_kept_in_reserve():
    assert reserved_s() == pytest.approx(START_S)


@pytest.mark.parametrize(("took_s", "kept_s"), [(FAST_S, START_S), (SLOW_S, SLOW_S)])
def test_the_first_answers_may_only_raise_it(took_s, kept_s):
    assert reserved_s(took_s) == pytest.approx(kept_s)


def test_the_slow_ones_set_the_reserve_when_they_are_more_than_one_in_a_hundred():
    assert reserved_s(*[FAST_S] * (WINDOW - 4), *[SLOW_S] * 4) == pytest.approx(SLOW_S)


def test_a_single_slow_one_does_not():
    assert reserved_s(*[FAST_S] * (WINDOW // 2), SLOW_S, *[FAST_S] * (WINDOW // 2 - 1)) == pytest.approx(FAST_S)


def test_a_broker_that_was_away_for_long_costs_no_more_than_the_longest():
    assert reserved_s(*[3600.0] * WINDOW) == pytest.approx(LONGEST_S)


def test_what_is_longer_ago_than_the_window_is_forgotten():
    assert reserved_s(*[SLOW_S] * WINDOW, *[FAST_S] * (WINDOW - 4)) == pytest.approx(SLOW_S)
    assert reserved_s(*[SLOW_S] * WINDOW, *[FAST_S] * WINDOW) == pytest.approx(FAST_S)


@given(took_s=st.lists(st.floats(0.0, 1e6), min_size=WINDOW, max_size=2 * WINDOW))
def test_the_reserve_is_what_one_of_the_answers_took_and_the_margin(took_s: list[float]):
    assert posting(*took_s).reserve_s in {min(one_s, LONGEST_S) + MARGIN_S for one_s in took_s[-WINDOW:]}


@given(took_s=st.lists(st.floats(0.0, LONGEST_S), min_size=WINDOW, max_size=WINDOW))
def test_of_a_hundred_answers_two_at_most_take_longer_than_the_reserve(took_s: list[float]):
    without_margin_s = posting(*took_s).reserve_s - MARGIN_S
    assert sum(one_s > without_margin_s + 1e-9 for one_s in took_s) <= 0.02 * WINDOW


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_s)


@pytest.mark.usefixtures("hasty_threads")
def test_it_learns_on_some_threads_while_it_is_asked_on_others():
    learnt = posting(FAST_S)
    asked: list[float] = []
    observers = [threading.Thread(target=lambda: [learnt.observe(SLOW_S) for _ in range(500)]) for _ in range(4)]
    askers = [threading.Thread(target=lambda: asked.extend(learnt.reserve_s for _ in range(100))) for _ in range(2)]
    for thread in (*observers, *askers):
        thread.start()
    for thread in (*observers, *askers):
        thread.join()
    assert len(asked) == 200
    assert set(asked) <= {FAST_S + MARGIN_S, SLOW_S + MARGIN_S}
    assert learnt.reserve_s == SLOW_S + MARGIN_S

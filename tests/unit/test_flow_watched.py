"""The latency benchmark: contestants learn for themselves, and the longest chain of units is found."""

import pytest

from benchmarks.watched import LANGUAGE, MODEL, PIECE, Unit, chain_ms, fresh_book
from pipeline.forecast import PRIORS_MS
from pipeline.latency import LatencyBook


def test_a_fresh_book_knows_what_was_known_and_learns_for_itself() -> None:
    book = LatencyBook(PRIORS_MS)
    book.observe("detect", ms=60.0, work=1)
    own = fresh_book(book)
    assert own.rate_ms("detect") == pytest.approx(60.0)
    for _ in range(20):
        own.observe("detect", ms=90.0, work=1)
    assert own.rate_ms("detect") == pytest.approx(90.0)
    assert book.rate_ms("detect") == pytest.approx(60.0)


def test_of_pieces_side_by_side_only_the_longest_counts() -> None:
    units = [Unit(LANGUAGE, 0.0, 0.05), Unit(PIECE, 0.05, 0.25), Unit(PIECE, 0.05, 0.35)]
    assert chain_ms(units, before_ms=40, after_ms=10) == pytest.approx(40 + 50 + 300 + 10)


def test_of_the_language_models_answers_that_overlap_the_time_counts_once_and_only_after_the_words() -> None:
    units = [Unit(PIECE, 0.0, 0.3), Unit(MODEL, 0.1, 0.2), Unit(MODEL, 0.3, 0.5), Unit(MODEL, 0.4, 0.6)]
    assert chain_ms(units, before_ms=0, after_ms=0) == pytest.approx(300 + 300)


def test_without_speech_the_chain_is_what_is_left_of_it() -> None:
    assert chain_ms([], before_ms=40, after_ms=10) == 50

"""The latency book learns what stages cost."""

import pytest

from pipeline.latency import WINDOW, LatencyBook


def test_the_prior_counts_until_something_was_measured():
    book = LatencyBook({"ocr": 100.0})
    assert book.predict_ms("ocr", work=2) == 200
    book.observe("ocr", ms=30, work=1)
    assert book.predict_ms("ocr", work=2) == 60


def test_the_estimate_is_the_95th_percentile_of_the_window():
    book = LatencyBook({})
    for ms in range(1, 101):
        book.observe("detect", ms=ms, work=1)
    window = range(101 - WINDOW, 101)
    assert book.rate_ms("detect") == window[int(0.95 * WINDOW)]


def test_old_observations_are_forgotten():
    book = LatencyBook({})
    book.observe("vad", ms=10_000, work=1)
    for _ in range(WINDOW):
        book.observe("vad", ms=2, work=1)
    assert book.rate_ms("vad") == 2


def test_units_without_work_teach_nothing():
    book = LatencyBook({"audio": 3.0})
    book.observe("audio", ms=50, work=0)
    assert book.rate_ms("audio") == 3


def test_an_unknown_stage_is_an_error():
    with pytest.raises(KeyError):
        LatencyBook({}).rate_ms("teleport")

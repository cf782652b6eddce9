"""The latency book learns what stages cost."""

import pytest

from pipeline.latency import SAFE, TYPICAL, WINDOW, LatencyBook


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


def test_what_is_typical_is_the_median_of_the_window():
    book = LatencyBook({})
    for ms in range(1, 101):
        book.observe("detect", ms=ms, work=1)
    window = range(101 - WINDOW, 101)
    assert book.rate_ms("detect", TYPICAL) == window[WINDOW // 2]
    assert book.predict_ms("detect", work=3, quantile=TYPICAL) == 3 * window[WINDOW // 2]


def test_an_outlier_matters_to_promises_and_not_to_what_is_typical():
    book = LatencyBook({})
    for ms in (10, 10, 10, 500):
        book.observe("ocr", ms=ms, work=1)
    assert (book.rate_ms("ocr", TYPICAL), book.rate_ms("ocr", SAFE)) == (10, 500)


def test_the_prior_is_all_quantiles():
    book = LatencyBook({"ocr": 100.0})
    assert book.rate_ms("ocr", TYPICAL) == book.rate_ms("ocr", SAFE) == 100


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

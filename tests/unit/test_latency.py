"""The latency book learns what stages cost."""

import pytest

from pipeline.latency import DOUBT, MOST_AT_ONCE, SAFE, TYPICAL, WINDOW, LatencyBook, Line


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
    for ms in (10, 10, 10, 100):
        book.observe("ocr", ms=ms, work=1)
    assert (book.rate_ms("ocr", TYPICAL), book.rate_ms("ocr", SAFE)) == (10, 100)


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


@pytest.mark.parametrize("factor", [10.0, 0.1])
@pytest.mark.parametrize("quantile", [TYPICAL, SAFE])
def test_a_wrong_prior_is_forgotten_within_three_clips(factor: float, quantile: float):
    book = LatencyBook({"transcribe:en": Line(20.0 * factor, 30.0 * factor)})
    for _ in range(3):
        book.observe("transcribe:en", ms=130, work=5)
    assert book.predict_ms("transcribe:en", work=5, quantile=quantile) == pytest.approx(130)


def test_a_machine_that_becomes_slow_and_fast_again_is_followed_both_ways_within_ten():
    book = LatencyBook({"detect": 20.0})
    for ms in (20, 60, 20):
        for _ in range(10):
            book.observe("detect", ms=ms, work=1)
        assert book.rate_ms("detect", TYPICAL) == book.rate_ms("detect", SAFE) == pytest.approx(ms)


def test_a_paused_machine_is_not_taken_for_a_slow_one():
    book = LatencyBook({"detect": 20.0})
    for ms in (20, 20, 60_000):
        book.observe("detect", ms=ms, work=1)
    assert book.rate_ms("detect", SAFE) == pytest.approx(20 * MOST_AT_ONCE)
    for _ in range(WINDOW):
        book.observe("detect", ms=20, work=1)
    assert book.rate_ms("detect", SAFE) == pytest.approx(20)


def test_an_estimate_that_forbids_work_is_believed_less_each_time_until_the_work_is_done():
    book = LatencyBook({"ocr": 1_000.0})
    refusals = 0
    while book.rate_ms("ocr") > 100:
        book.doubt("ocr")
        refusals += 1
    assert refusals <= 7
    book.observe("ocr", ms=500, work=1)
    assert book.rate_ms("ocr") == pytest.approx(500)
    book.doubt("ocr")
    assert book.rate_ms("ocr") == pytest.approx(500 * DOUBT)


def test_calibration_lays_a_line_through_two_sizes():
    book = LatencyBook({"transcribe:en": Line(1.0, 1.0)})
    book.observe("transcribe:en", ms=9_999, work=1)
    book.calibrate("transcribe:en", [(5.0, 130.0), (2.0, 70.0)])
    assert [book.predict_ms("transcribe:en", work=s) for s in (2.0, 5.0, 8.0)] == pytest.approx([70, 130, 190])


def test_calibration_with_one_size_keeps_the_shape():
    book = LatencyBook({"transcribe:en": Line(10.0, 50.0)})
    book.calibrate("transcribe:en", [(5.0, 200.0)])
    assert [book.predict_ms("transcribe:en", work=s) for s in (0.0, 5.0)] == pytest.approx([100, 200])


def test_what_was_learnt_can_be_kept_and_taken_up_again():
    book, again = LatencyBook({"ocr": 100.0, "old": 1.0}), LatencyBook({"ocr": 40.0, "new": 7.0})
    book.observe("ocr", ms=150, work=1)
    again.restore(book.kept())
    assert again.rate_ms("ocr") == pytest.approx(150)
    assert again.rate_ms("new") == 7
    with pytest.raises(KeyError):
        again.rate_ms("old")

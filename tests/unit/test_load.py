"""How much the jobs under way still have to do."""

import pytest

from pipeline.load import Load


def test_work_is_done_evenly_until_the_predicted_end():
    load = Load()
    load.begin("a", work_ms=400, lasts_ms=200, now_s=10.0)
    assert load.left_ms(10.0) == pytest.approx(400)
    assert load.left_ms(10.1) == pytest.approx(200)
    assert load.left_ms(10.2) == pytest.approx(0, abs=1e-6)
    assert load.left_ms(99) == 0


def test_jobs_add_up_and_an_ended_one_leaves_nothing():
    load = Load()
    load.begin("a", work_ms=400, lasts_ms=200, now_s=0)
    load.begin("b", work_ms=100, lasts_ms=200, now_s=0)
    assert load.left_ms(0) == 500
    load.end("a")
    load.end("never planned")
    assert load.left_ms(0) == 100

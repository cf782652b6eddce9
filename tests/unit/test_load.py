"""How much the jobs under way still have to do, and what one more would."""

import threading

import pytest

from pipeline.forecast import Forecast
from pipeline.load import START_SPAN_MS, START_WORK_MS, Load
from tests.unit.manual_clock import ManualClock


def job_of(needed_ms: float, *, span_ms: float = 100.0) -> Forecast:
    """Return a job with twice as much work as it needs."""
    return Forecast(
        listening_ms=0.0,
        listening_chain_ms=0.0,
        looking_ms=2 * needed_ms,
        looking_chain_ms=span_ms,
        glancing_ms=needed_ms,
        fusing_ms=0.0,
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def load() -> Load:
    return Load()


def test_a_job_has_all_that_it_needs_before_it_until_its_units_run(load, clock):
    load.begin("a", job_of(400))
    assert load.left_ms(clock()) == pytest.approx(400)
    clock.pass_ms(1_000)
    assert load.left_ms(clock()) == pytest.approx(400), "waiting is no work"


def test_what_units_have_done_is_taken_off(load, clock):
    load.begin("a", job_of(400))
    for ms in (100, 50):
        with load.unit("a", clock=clock):
            clock.pass_ms(ms)
    assert load.left_ms(clock()) == pytest.approx(250)


def test_units_under_way_count_as_far_as_they_got(load, clock):
    load.begin("a", job_of(400))
    with load.unit("a", clock=clock):
        clock.pass_ms(100)
        assert load.left_ms(clock()) == pytest.approx(300)
        with load.unit("a", clock=clock):
            clock.pass_ms(50)
            assert load.left_ms(clock()) == pytest.approx(200), "two at once do twice as much"
        clock.pass_ms(20)
        assert load.left_ms(clock()) == pytest.approx(180)
    assert load.left_ms(clock()) == pytest.approx(180)


def test_a_unit_that_fails_has_taken_its_time_all_the_same(load, clock):
    load.begin("a", job_of(400))
    with pytest.raises(ValueError, match="bad weights"), load.unit("a", clock=clock):
        clock.pass_ms(100)
        raise ValueError("bad weights")
    clock.pass_ms(100)
    assert load.left_ms(clock()) == pytest.approx(300)


def test_a_job_that_takes_longer_than_expected_owes_nothing_and_makes_no_room_for_others(load, clock):
    load.begin("a", job_of(100))
    load.begin("b", job_of(300))
    with load.unit("a", clock=clock):
        clock.pass_ms(250)
        assert load.left_ms(clock()) == pytest.approx(300)
    assert load.left_ms(clock()) == pytest.approx(300)


def test_jobs_add_up_and_an_ended_one_leaves_nothing(load, clock):
    load.begin("a", job_of(400))
    load.begin("b", job_of(100))
    assert (load.jobs, load.left_ms(clock())) == (2, pytest.approx(500))
    load.end("a")
    load.end("never planned")
    assert (load.jobs, load.left_ms(clock())) == (1, pytest.approx(100))


def test_a_unit_may_outlive_its_job(load, clock):
    load.begin("a", job_of(400))
    load.begin("b", job_of(100))
    with load.unit("a", clock=clock):
        load.end("a")
        clock.pass_ms(50)
        assert load.left_ms(clock()) == pytest.approx(100)
    assert (load.jobs, load.left_ms(clock())) == (1, pytest.approx(100))


def test_a_unit_of_an_unknown_job_changes_nothing(load, clock):
    load.begin("a", job_of(400))
    with load.unit("backfill", clock=clock):
        clock.pass_ms(300)
        assert load.left_ms(clock()) == pytest.approx(400)
    assert (load.jobs, load.left_ms(clock())) == (1, pytest.approx(400))


def test_averages_move_towards_new_jobs_and_outlast_them(load):
    assert (load.work_ms, load.span_ms) == (START_WORK_MS, START_SPAN_MS)
    seen = []
    for number in range(60):
        load.begin(f"{number}", job_of(1_000, span_ms=600))
        load.end(f"{number}")
        seen.append((load.work_ms, load.span_ms))
    assert seen == sorted(set(seen)), "each job moves both closer"
    assert START_WORK_MS < seen[0][0] < 500, "one job alone does not move them far"
    assert seen[-1] == (pytest.approx(1_000, rel=0.01), pytest.approx(600, rel=0.01))


def test_units_of_many_threads_are_all_counted(load):
    load.begin("a", job_of(10_000))

    def work() -> None:
        for _ in range(200):
            with load.unit("a", clock=lambda: 0.0):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load.left_ms(1e9) == pytest.approx(10_000), "no unit is left under way"

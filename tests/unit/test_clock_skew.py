"""Ages are never negative, impossible ages are corrected, and corrections are counted."""

import pytest

from pipeline.ingest.clock_skew import NO_TIMESTAMP_MS, TOLERANCE_S, Arrival, ClockSkew

NOW_S = 1_800_000_000.0


def stamped(age_s: float) -> int:
    return round((NOW_S - age_s) * 1000)


@pytest.mark.parametrize("age_s", [0.0, 0.1, 300.0, 86_400.0])
def test_an_age_is_believed_when_nothing_speaks_against_it(age_s: float) -> None:
    skew = ClockSkew()
    assert skew.arrival(stamped(age_s), now_s=NOW_S).age_s == pytest.approx(age_s)
    assert (skew.ahead, skew.behind, skew.largest_s) == (0, 0, 0.0)


def test_a_record_from_the_future_is_new_and_counted() -> None:
    skew = ClockSkew()
    assert skew.arrival(stamped(-300), now_s=NOW_S) == Arrival(0.0, pytest.approx(300))
    assert (skew.ahead, skew.behind) == (1, 0)
    assert skew.largest_s == pytest.approx(300)


def test_an_old_stamp_in_a_partition_that_was_just_empty_is_a_slow_clock() -> None:
    skew = ClockSkew()
    assert skew.arrival(stamped(300), now_s=NOW_S, empty_for_s=0.03) == Arrival(0.03, pytest.approx(-299.97))
    assert (skew.ahead, skew.behind) == (0, 1)


def test_a_record_that_waited_while_nobody_looked_is_old() -> None:
    assert ClockSkew().arrival(stamped(300), now_s=NOW_S, empty_for_s=400.0).age_s == pytest.approx(300)


@pytest.mark.parametrize("age_s", [-TOLERANCE_S / 2, TOLERANCE_S / 2])
def test_clocks_that_nearly_agree_are_not_counted(age_s: float) -> None:
    skew = ClockSkew()
    arrival = skew.arrival(stamped(age_s), now_s=NOW_S, empty_for_s=0.0)
    assert (arrival.age_s, arrival.skew_s) == (0.0, 0.0)
    assert (skew.ahead, skew.behind) == (0, 0)


def test_a_record_without_a_timestamp_is_new() -> None:
    assert ClockSkew().arrival(NO_TIMESTAMP_MS, now_s=NOW_S) == Arrival(0.0)


@pytest.mark.parametrize("timestamp_ms", [-(2**63), 2**63 - 1, 0])
def test_absurd_timestamps_break_nothing(timestamp_ms: int) -> None:
    assert ClockSkew().arrival(timestamp_ms, now_s=NOW_S).age_s >= 0

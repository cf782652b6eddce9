"""How the service's benchmark counts."""

import math

import pytest

from benchmarks.service_jobs import arrivals_s
from benchmarks.service_kills import Kill, takeovers_s
from benchmarks.service_outcomes import Outcome, Reply, percentile, tally
from pipeline.bus.base import Partition
from schemas.job import Lane
from schemas.result import ResultStatus

COMPLETE, PARTIAL, REJECTED = ResultStatus.COMPLETE, ResultStatus.PARTIAL, ResultStatus.REJECTED


def outcome(sent_ms: int, *replies: tuple[int, ResultStatus], partition: int = 0, worker: str = "host-1") -> Outcome:
    answers = tuple(Reply(at_ms, status, worker) for at_ms, status in replies)
    return Outcome(Lane.REALTIME, Partition("jobs", partition), sent_ms, answers)


def test_a_job_without_an_answer_counts_as_offered_and_late() -> None:
    found = tally([outcome(0, (100, COMPLETE)), outcome(0)], seconds=2)
    assert (found.offered, found.offered_s, found.in_time) == (2, 1.0, 0.5)
    assert found.shares["none"] == 0.5
    assert found.p99_ms == math.inf


def test_only_the_first_answer_counts() -> None:
    handed_over = outcome(0, (20, REJECTED), (5_000, COMPLETE))
    found = tally([handed_over], seconds=1)
    assert (found.in_time, found.shares[COMPLETE], found.shares[REJECTED], found.good_s) == (1.0, 0.0, 1.0, 0.0)


def test_useful_answers_are_those_in_time_that_say_something() -> None:
    jobs = [
        outcome(0, (501, COMPLETE)),
        outcome(0, (500, COMPLETE)),
        outcome(0, (9, PARTIAL)),
        outcome(0, (9, REJECTED)),
    ]
    found = tally(jobs, seconds=1)
    assert (found.in_time, found.good_s) == (0.75, 2.0)


def test_a_takeover_ends_with_somebody_elses_first_answer_in_each_partition() -> None:
    before = outcome(900, (950, COMPLETE), partition=3, worker="host-7")
    idle = outcome(900, (950, COMPLETE), partition=4, worker="host-8")
    after = outcome(1_100, (7_500, COMPLETE), (7_600, COMPLETE), partition=3, worker="host-8")
    elsewhere = outcome(1_100, (1_200, COMPLETE), partition=4, worker="host-8")
    assert takeovers_s([before, idle, after, elsewhere], Kill(at_ms=1_000, pid=7)) == [6.5]
    assert takeovers_s([before, idle, elsewhere], Kill(at_ms=1_000, pid=7)) == [math.inf]


def test_arrivals_have_the_rate_and_repeat_with_the_seed() -> None:
    moments_s = list(arrivals_s(rate=50, seconds=100, seed="a"))
    assert len(moments_s) == pytest.approx(5_000, rel=0.05)
    assert moments_s == sorted(moments_s) == list(arrivals_s(rate=50, seconds=100, seed="a"))
    assert 0 < moments_s[0] < moments_s[-1] < 100


@pytest.mark.parametrize(("part", "value"), [(0.5, 50), (0.99, 99), (0.999, 100), (0.0, 1)])
def test_a_percentile_is_one_of_the_values(part: float, value: int) -> None:
    assert percentile(range(1, 101), part) == value

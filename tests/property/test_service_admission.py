"""Whatever is under way: more of it never helps, and an idle house takes whatever can be done in time."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.service.admission import Prospect, judge

seconds = st.floats(0.0, 10.0)
jobs = st.integers(0, 200)
prospects = st.builds(
    Prospect, cores=st.integers(1, 64), begun=st.integers(0, 50), left_s=seconds, work_s=seconds, span_s=seconds
)


@given(prospect=prospects, under_way=jobs, remaining_s=seconds, least_s=seconds, more=jobs, more_s=seconds)
def test_more_under_way_and_more_left_of_it_never_make_a_job_welcome(
    prospect: Prospect, under_way: int, remaining_s: float, least_s: float, more: int, more_s: float
) -> None:
    now = judge(prospect, under_way=under_way, remaining_s=remaining_s, least_s=least_s)
    for busier, jobs_then in (
        (prospect, under_way + more),
        (replace(prospect, left_s=prospect.left_s + more_s), under_way),
        (replace(prospect, work_s=prospect.work_s + more_s), under_way),
        (replace(prospect, span_s=prospect.span_s + more_s), under_way),
    ):
        then = judge(busier, under_way=jobs_then, remaining_s=remaining_s, least_s=least_s)
        assert then.wait_s >= now.wait_s
        assert then.retry_after_s >= now.retry_after_s
        assert now.admitted or not then.admitted


@given(prospect=prospects, under_way=jobs, remaining_s=seconds, least_s=seconds, more_s=seconds)
def test_more_time_never_makes_a_job_unwelcome(
    prospect: Prospect, under_way: int, remaining_s: float, least_s: float, more_s: float
) -> None:
    hasty = judge(prospect, under_way=under_way, remaining_s=remaining_s, least_s=least_s)
    patient = judge(prospect, under_way=under_way, remaining_s=remaining_s + more_s, least_s=least_s)
    assert patient.admitted or not hasty.admitted
    assert patient.wait_s == hasty.wait_s


@given(prospect=prospects, remaining_s=seconds, least_s=seconds)
def test_with_nobody_before_it_whoever_has_time_for_the_least_is_taken(
    prospect: Prospect, remaining_s: float, least_s: float
) -> None:
    idle = replace(prospect, begun=0, left_s=0.0)
    verdict = judge(idle, under_way=0, remaining_s=remaining_s, least_s=least_s)
    assert verdict.wait_s == 0
    assert verdict.admitted == (remaining_s >= least_s)


@given(prospect=prospects, under_way=jobs, remaining_s=seconds, least_s=seconds)
def test_with_others_before_it_a_job_needs_time_for_a_whole_answer_after_them(
    prospect: Prospect, under_way: int, remaining_s: float, least_s: float
) -> None:
    verdict = judge(prospect, under_way=under_way, remaining_s=remaining_s, least_s=least_s)
    assume(under_way or verdict.wait_s > 0)  # those before it may have overrun: then they are there all the same
    assert verdict.admitted == (remaining_s >= verdict.wait_s + max(prospect.span_s, least_s))


@given(prospect=prospects, under_way=jobs, remaining_s=seconds, least_s=seconds)
def test_who_comes_again_when_told_with_so_much_more_time_is_taken(
    prospect: Prospect, under_way: int, remaining_s: float, least_s: float
) -> None:
    verdict = judge(prospect, under_way=under_way, remaining_s=remaining_s, least_s=least_s)
    assert (verdict.retry_after_s > 0) != verdict.admitted
    later_s = remaining_s + verdict.retry_after_s + 1e-6
    assert judge(prospect, under_way=under_way, remaining_s=later_s, least_s=least_s).admitted


@given(prospect=prospects, under_way=jobs)
def test_twice_the_cores_halve_the_wait(prospect: Prospect, under_way: int) -> None:
    roomy = replace(prospect, cores=2 * prospect.cores)
    one, two = (judge(house, under_way=under_way, remaining_s=1.0, least_s=0.1) for house in (prospect, roomy))
    assert two.wait_s == pytest.approx(one.wait_s / 2)


@given(prospect=prospects, not_begun=jobs)
def test_jobs_that_were_begun_count_by_what_is_left_of_them_and_the_others_as_typical_ones(
    prospect: Prospect, not_begun: int
) -> None:
    verdict = judge(prospect, under_way=prospect.begun + not_begun, remaining_s=1.0, least_s=0.1)
    assert verdict.wait_s * prospect.cores == pytest.approx(prospect.left_s + not_begun * prospect.work_s)


@given(prospect=prospects, ended=st.integers(0, 50))
def test_jobs_that_have_just_ended_are_no_credit(prospect: Prospect, ended: int) -> None:
    under_way = max(0, prospect.begun - ended)
    verdict = judge(prospect, under_way=under_way, remaining_s=1.0, least_s=0.1)
    assert verdict.wait_s * prospect.cores == pytest.approx(prospect.left_s)

"""Whatever came before: more load never helps, and an idle house takes whatever can be done in time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.service.admission import START_S, DoorPolicy

seconds = st.floats(0.0, 10.0)
jobs = st.integers(0, 200)
places = st.integers(1, 8)
LEAST_S = 0.12


def door(places: int, learnt: list[float]) -> DoorPolicy:
    policy = DoorPolicy(places=places, least_s=LEAST_S)
    for took_s in learnt:
        policy.learn(took_s)
    return policy


@settings(deadline=None)
@given(places=places, learnt=st.lists(seconds, max_size=30), ahead=jobs, running=jobs, more=jobs, remaining_s=seconds)
def test_more_jobs_before_it_never_make_a_job_welcome(
    places: int, learnt: list[float], ahead: int, running: int, more: int, remaining_s: float
) -> None:
    policy = door(places, learnt)
    now = policy.judge(ahead=ahead, running=running, remaining_s=remaining_s)
    for busier in (
        policy.judge(ahead=ahead + more, running=running, remaining_s=remaining_s),
        policy.judge(ahead=ahead, running=running + more, remaining_s=remaining_s),
    ):
        assert busier.wait_s >= now.wait_s
        assert busier.retry_after_s >= now.retry_after_s
        assert now.admitted or not busier.admitted


@settings(deadline=None)
@given(places=places, learnt=st.lists(seconds, max_size=30), ahead=jobs, running=jobs, remaining_s=seconds)
def test_more_time_never_makes_a_job_unwelcome(
    places: int, learnt: list[float], ahead: int, running: int, remaining_s: float
) -> None:
    policy = door(places, learnt)
    hasty = policy.judge(ahead=ahead, running=running, remaining_s=remaining_s)
    patient = policy.judge(ahead=ahead, running=running, remaining_s=remaining_s + 1)
    assert patient.admitted or not hasty.admitted


@settings(deadline=None)
@given(places=places, learnt=st.lists(seconds, max_size=30), remaining_s=seconds, data=st.data())
def test_while_a_place_is_free_a_job_that_can_be_done_in_time_is_taken(
    places: int, learnt: list[float], remaining_s: float, data: st.DataObject
) -> None:
    policy = door(places, learnt)
    verdict = policy.judge(ahead=0, running=data.draw(st.integers(0, places - 1)), remaining_s=remaining_s)
    assert verdict.wait_s == 0
    assert verdict.admitted == (remaining_s >= LEAST_S)


@settings(deadline=None)
@given(places=places, learnt=st.lists(seconds, max_size=30), ahead=jobs, running=jobs, remaining_s=seconds)
def test_who_comes_again_when_told_with_so_much_more_time_is_taken(
    places: int, learnt: list[float], ahead: int, running: int, remaining_s: float
) -> None:
    policy = door(places, learnt)
    verdict = policy.judge(ahead=ahead, running=running, remaining_s=remaining_s)
    assert (verdict.retry_after_s > 0) != verdict.admitted
    later = policy.judge(ahead=ahead, running=running, remaining_s=remaining_s + verdict.retry_after_s + 1e-6)
    assert later.admitted


@settings(deadline=None)
@given(took_s=st.lists(seconds, min_size=1, max_size=50))
def test_what_a_job_costs_stays_between_what_jobs_have_taken_and_the_first_guess(took_s: list[float]) -> None:
    cost_s = door(1, took_s).cost_s
    assert min([*took_s, START_S]) - 1e-9 <= cost_s <= max([*took_s, START_S]) + 1e-9


@pytest.mark.parametrize("took_s", [0.02, 2.0])
def test_the_door_learns_what_jobs_take(took_s: float) -> None:
    assert door(1, [took_s] * 60).cost_s == pytest.approx(took_s, rel=0.3)
    one = door(1, [took_s] * 60).judge(ahead=10, running=1, remaining_s=1.0)
    assert one.admitted == (took_s < 1 / 12)


def test_twice_the_places_halve_the_wait() -> None:
    waits = [DoorPolicy(places=n, least_s=0).judge(ahead=99 + n, running=0, remaining_s=9).wait_s for n in (2, 4)]
    assert waits[0] == pytest.approx(2 * waits[1])

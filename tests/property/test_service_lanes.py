"""Whatever waits, in whatever order it came: realtime first, then deadline, priority, arrival."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.service.lanes import LaneQueue
from schemas.job import Lane

jobs = st.lists(
    st.tuples(st.sampled_from(Lane), st.sampled_from([1.0, 2.0, float("inf")]), st.integers(0, 2)), max_size=30
)


def rank(numbered: tuple[int, tuple[Lane, float, int]]) -> tuple[bool, float, int, int]:
    arrival, (lane, deadline_s, priority) = numbered
    return lane is not Lane.REALTIME, deadline_s, priority, arrival


def filled(waiting: list[tuple[Lane, float, int]]) -> LaneQueue[int]:
    queue: LaneQueue[int] = LaneQueue()
    for number, (lane, deadline_s, priority) in enumerate(waiting):
        queue.push(number, lane=lane, deadline_s=deadline_s, priority=priority)
    return queue


@settings(deadline=None)
@given(waiting=jobs)
def test_realtime_goes_first_then_the_earliest_deadline_then_priority_then_arrival(
    waiting: list[tuple[Lane, float, int]],
) -> None:
    queue = filled(waiting)
    expected = [number for number, _ in sorted(enumerate(waiting), key=rank)]
    assert len(queue) == len(waiting)
    assert [queue.pop(Lane.REALTIME, Lane.BACKFILL) for _ in waiting] == expected
    assert queue.pop(Lane.REALTIME, Lane.BACKFILL) is None
    assert len(queue) == 0


@settings(deadline=None)
@given(waiting=jobs)
def test_a_lane_is_taken_from_without_touching_the_other(waiting: list[tuple[Lane, float, int]]) -> None:
    queue = filled(waiting)
    backfill = [number for number, job in enumerate(waiting) if job[0] is Lane.BACKFILL]
    assert sorted(number for _ in backfill if (number := queue.pop(Lane.BACKFILL)) is not None) == backfill
    assert queue.pop(Lane.BACKFILL) is None
    assert queue.waiting(Lane.BACKFILL) == 0
    assert queue.waiting(Lane.REALTIME) == len(queue) == len(waiting) - len(backfill)


@settings(deadline=None)
@given(waiting=jobs)
def test_what_is_drained_comes_best_first(waiting: list[tuple[Lane, float, int]]) -> None:
    assert list(filled(waiting).drain()) == [number for number, _ in sorted(enumerate(waiting), key=rank)]

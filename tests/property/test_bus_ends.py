"""Whatever is seen of a partition and whenever, no record is ever taken for younger than it is."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.bus.base import Partition
from pipeline.bus.ends import KEPT, PartitionEnds

AT = Partition("jobs", 0)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(1, 3)),
        st.tuples(st.just("look"), st.integers(0, 5)),  # told so many steps late: the answer lay unread
        st.tuples(st.just("new leader"), st.integers(1, 4)),
    ),
    max_size=60,
)


@given(steps)
def test_a_record_came_after_the_time_that_is_told(happened: list[tuple[str, int]]) -> None:
    ends, came_s, lengths, told = PartitionEnds(), list[int](), [0], 0
    for now_s, (what, number) in enumerate(happened, start=1):
        if what == "come":
            came_s += [now_s] * number
        elif what == "look":
            seen_s = max(0, now_s - number)
            end = lengths[seen_s] if seen_s < len(lengths) else len(came_s)
            ends.note(AT, end, seen_s=seen_s)
            told = max(told, end)
        elif told >= number:  # one that has not heard yet how far the old one was
            ends.note(AT, told - number, seen_s=now_s)
        lengths.append(len(came_s))
        for offset, at_s in enumerate(came_s):
            told_s = ends.came_after_s(AT, offset)
            assert told_s is None or told_s <= at_s


@given(st.lists(st.integers(1, 500), min_size=1, max_size=3 * KEPT))
def test_of_a_reader_that_keeps_up_every_record_is_dated_by_the_look_before_it_came(batches: list[int]) -> None:
    ends, end = PartitionEnds(), 0
    ends.note(AT, end, seen_s=0)
    for now_s, batch in enumerate(batches, start=1):
        assert {ends.came_after_s(AT, offset) for offset in range(end, end + batch)} == {now_s - 1}
        end += batch
        ends.note(AT, end, seen_s=now_s)


def test_of_a_partition_that_was_never_looked_into_nothing_is_known() -> None:
    ends = PartitionEnds()
    ends.note_unchanged(AT, seen_s=1.0)
    assert ends.came_after_s(AT, 0) is None

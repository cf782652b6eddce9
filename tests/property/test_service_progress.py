"""Whatever order jobs end in, whenever the worker dies: nothing unanswered is committed, nothing answered repeated."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.service.progress import MAX_METADATA_CHARS, PartitionProgress

offsets_with_holes = st.lists(st.integers(1, 3), min_size=1, max_size=60).map(
    lambda gaps: [sum(gaps[: i + 1]) for i in range(len(gaps))]
)


@given(offsets=offsets_with_holes, data=st.data())
def test_the_watermark_is_the_first_unanswered_record_and_a_successor_answers_the_rest_once(
    offsets: list[int], data: st.DataObject
) -> None:
    progress = PartitionProgress(offsets[0])
    delivered = 0
    answered: list[int] = []
    for _ in range(data.draw(st.integers(0, 2 * len(offsets)))):
        open_now = [o for o in offsets[:delivered] if o not in answered]
        if delivered < len(offsets) and (not open_now or data.draw(st.booleans())):
            assert progress.begin(offsets[delivered])
            delivered += 1
        elif open_now:
            offset = data.draw(st.sampled_from(open_now))
            progress.answer(offset)
            answered.append(offset)
        unanswered = [o for o in offsets if o not in answered]
        assert progress.next_offset <= min(unanswered, default=progress.next_offset)
        assert all(o in answered for o in offsets if o < progress.next_offset)
        assert progress.open == len([o for o in offsets[:delivered] if o not in answered])

    successor = PartitionProgress.restore(progress.next_offset, progress.metadata())
    for offset in [o for o in offsets if o >= progress.next_offset]:
        assert successor.begin(offset) == (offset not in answered)
        if offset not in answered:
            successor.answer(offset)
    assert successor.next_offset == max(offsets[-1] + 1, progress.next_offset)
    assert successor.open == 0


@given(st.text())
def test_metadata_of_somebody_else_counts_as_none(metadata: str) -> None:
    assert PartitionProgress.restore(5, metadata).next_offset == 5


def test_metadata_stays_within_what_the_broker_keeps() -> None:
    progress = PartitionProgress(0)
    for offset in range(10_000):
        progress.begin(offset)
    for offset in range(1, 10_000, 2):
        progress.answer(offset)
    assert progress.next_offset == 0
    assert len(progress.metadata()) <= MAX_METADATA_CHARS
    restored = PartitionProgress.restore(0, progress.metadata())
    assert restored.begin(0)
    assert not restored.begin(1)


def test_an_answer_to_what_was_never_read_is_a_bug_that_shows() -> None:
    progress = PartitionProgress(0)
    try:
        progress.answer(3)
    except KeyError:
        return
    raise AssertionError

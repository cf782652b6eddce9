"""What the answers to fetches say about where partitions ended, and what they do not say."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.consumer.fetcher import Fetcher
from kafka.structs import TopicPartition

from pipeline.bus.base import Partition
from pipeline.bus.ends import PartitionEnds
from pipeline.bus.kafka_ends import note_ends

AT, OTHER = Partition("jobs", 0), Partition("jobs", 1)


@dataclass
class FakeFetcher:
    handled: list[tuple[Any, ...]] = field(default_factory=list)

    def _handle_fetch_response(self, *told: Any) -> None:
        self.handled.append(told)


class Fetches:
    """A fetcher that is watched; each answer is about ``AT`` and ``OTHER`` unless it leaves them out."""

    def __init__(self) -> None:
        self.ends = PartitionEnds()
        self.fetcher = FakeFetcher()
        note_ends(self.fetcher, self.ends)

    def answered(self, sent_s: float, *, error: int = 0, throttled_ms: int = 0, **ends: int | tuple[int, int]) -> None:
        """Answer with the ends ``at`` and ``other``; of a tuple the second is an error code."""
        partitions = [
            SimpleNamespace(
                partition_index={"at": 0, "other": 1}[name],
                high_watermark=end if isinstance(end, int) else end[0],
                error_code=0 if isinstance(end, int) else end[1],
            )
            for name, end in ends.items()
        ]
        response = SimpleNamespace(
            error_code=error,
            throttle_time_ms=throttled_ms,
            responses=[SimpleNamespace(topic="jobs", partitions=partitions)],
        )
        asked = {TopicPartition(*AT): 0, TopicPartition(*OTHER): 0}
        self.fetcher._handle_fetch_response(1, asked, sent_s, response)


@pytest.fixture
def fetches() -> Fetches:
    return Fetches()


def test_kafka_python_still_has_what_is_watched() -> None:
    names = Fetcher._handle_fetch_response.__code__.co_varnames
    assert names[:5] == ("self", "node_id", "fetch_offsets", "send_time", "response")


def test_kafka_python_is_told_everything_as_before(fetches: Fetches) -> None:
    fetches.answered(5.0, at=3)
    [(node, asked, sent_s, response)] = fetches.fetcher.handled
    assert (node, len(asked), sent_s, response.error_code) == (1, 2, 5.0, 0)


def test_an_end_counts_from_when_it_was_asked_for(fetches: Fetches) -> None:
    fetches.answered(5.0, at=3, other=0)
    assert (fetches.ends.came_after_s(AT, 3), fetches.ends.came_after_s(AT, 2)) == (5.0, None)
    assert fetches.ends.came_after_s(OTHER, 0) == 5.0


def test_what_an_answer_leaves_out_has_not_changed(fetches: Fetches) -> None:
    fetches.answered(5.0, at=3)
    fetches.answered(6.0, other=1)
    assert fetches.ends.came_after_s(AT, 3) == 6.0
    assert fetches.ends.came_after_s(OTHER, 1) == 6.0


@pytest.mark.parametrize("trouble", [{"error": 70}, {"throttled_ms": 100}])
def test_an_answer_that_is_none_says_nothing(trouble: dict[str, int], fetches: Fetches) -> None:
    fetches.answered(5.0, at=3)
    fetches.answered(6.0, **trouble)
    assert fetches.ends.came_after_s(AT, 3) == 5.0


def test_an_error_of_one_partition_says_nothing_about_it(fetches: Fetches) -> None:
    fetches.answered(5.0, at=3, other=3)
    fetches.answered(6.0, at=(-1, 6), other=3)
    assert fetches.ends.came_after_s(AT, 3) == 5.0
    assert fetches.ends.came_after_s(OTHER, 3) == 6.0


def test_records_that_come_are_bounded_by_the_answer_before_even_when_the_next_is_there_already(
    fetches: Fetches,
) -> None:
    for sent_s, end in [(5.0, 3), (6.0, 4), (7.0, 9)]:
        fetches.answered(sent_s, at=end)
    assert [fetches.ends.came_after_s(AT, offset) for offset in (3, 4, 8, 9)] == [5.0, 6.0, 6.0, 7.0]

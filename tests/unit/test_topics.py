"""The topics' names and settings."""

import pytest

from pipeline.bus.topics import MAX_MESSAGE_BYTES, Topics
from schemas.job import Lane


def test_each_lane_has_its_topic_and_back() -> None:
    topics = Topics("staging.")
    assert topics.of_lane(Lane.REALTIME) == "staging.video.jobs.realtime"
    for lane in Lane:
        assert topics.lane_of(topics.of_lane(lane)) is lane


def test_other_topics_have_no_lane() -> None:
    with pytest.raises(KeyError):
        Topics().lane_of("video.results")


def test_workers_write_to_all_topics_but_the_realtime_lane() -> None:
    topics = Topics("staging.")
    assert set(topics.written) == {topic.name for topic in topics.all()} - {topics.realtime}


def test_results_are_compacted_and_nothing_else_is() -> None:
    policies = {topic.name: topic.config["cleanup.policy"] for topic in Topics().all()}
    assert [name for name, policy in policies.items() if policy == "compact"] == ["video.results"]


def test_every_record_is_stamped_by_the_broker() -> None:
    assert {topic.config["message.timestamp.type"] for topic in Topics().all()} == {"LogAppendTime"}


def test_every_topic_takes_messages_of_the_same_size_and_has_a_valid_name() -> None:
    for topic in Topics("x" * 100).all():
        assert topic.config["max.message.bytes"] == str(MAX_MESSAGE_BYTES)
        assert len(topic.name) <= 249

"""A partition that is paused amid its records gives the rest when it is resumed, whatever came from others meanwhile.

kafka-python alone keeps them for ever once the other partitions are empty.
"""

import time
from collections import Counter
from collections.abc import Sequence

import pytest

from pipeline.bus.base import Partition, Record
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.kafka_consumer import MAX_POLL_RECORDS, KafkaConsumer
from pipeline.bus.topics import Topics
from pipeline.client import submit
from tests.service_jobs import job

pytestmark = pytest.mark.kafka

JOBS = 24 * MAX_POLL_RECORDS
WITHIN_S = 15.0


class Nobody:
    """Hears of partitions and does nothing."""

    def assigned(self, partitions: Sequence[Partition]) -> None: ...

    revoked = lost = assigned


def some(consumer: KafkaConsumer) -> list[Record]:
    """The next records, or none within a while."""
    give_up_s = time.monotonic() + WITHIN_S
    while time.monotonic() < give_up_s:
        if records := consumer.poll(0.1):
            return list(records)
    return []


def test_a_partition_paused_amid_its_records_gives_the_rest_when_it_is_resumed(broker: str, topics: Topics) -> None:
    bus = KafkaBus(KafkaConnection(broker))
    submit((job(number) for number in range(JOBS)), bus=bus, topics=topics)
    consumer = bus.consumer(group_id=topics.prefix, client_id="a test")
    try:
        consumer.subscribe([topics.realtime], Nobody())
        records = some(consumer)
        paused = [records[-1].partition]
        consumer.pause(paused)
        while batch := [*consumer.poll(1.0)]:
            records += batch
        assert len(records) < JOBS
        consumer.resume(paused)
        while len(records) < JOBS and (batch := some(consumer)):
            records += batch
    finally:
        consumer.close()
    places = Counter((record.partition, record.offset) for record in records)
    assert len(places) == JOBS
    assert set(places.values()) == {1}

"""The real broker keeps what every bus promises."""

import time
from uuid import uuid4

import pytest

from pipeline.bus.base import Partition
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import MAX_MESSAGE_BYTES, Topic
from tests.contract.bus_contract import *  # noqa: F403  (the contract's tests and fixtures)
from tests.contract.bus_contract import PATIENCE_S, idle, message, poll_records, poll_until, send, values_of, whole


@pytest.fixture
def bus(broker: str) -> KafkaBus:
    return KafkaBus(KafkaConnection(broker))


@pytest.fixture
def topics(bus: KafkaBus) -> list[str]:
    config = {"max.message.bytes": str(MAX_MESSAGE_BYTES)}
    names = [f"contract-{uuid4().hex[:12]}" for _ in range(2)]
    assert set(bus.create(Topic(name, 2, config, "a test") for name in names)) == set(names)
    return names


@pytest.mark.parametrize("kind", ["plain", "transactional"])
def test_sending_to_a_topic_that_was_prepared_asks_nobody_where_it_goes(kind, bus, topics, opened, monkeypatch):
    plain = kind == "plain"
    producer = bus.producer(client_id="a test") if plain else bus.transactional_producer(transactional_id=topics[0])
    opened.callback(producer.close)
    assert producer.prepare(topics) == {}
    monkeypatch.setattr(producer._kafka._metadata, "request_update", lambda: pytest.fail("it asks"))
    if not plain:
        producer.begin()
    for topic in topics:
        producer.send(message(topic))


def test_a_record_whose_answer_lay_unread_has_not_become_younger(bus, topics, producer, join):
    consumer, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), consumer)
    idle(consumer)
    sent_s = time.monotonic()
    send(producer, topics[0], "a")
    time.sleep(1.0)  # the answer to the fetch is here, and nobody polls
    [record] = poll_records(1, consumer)
    assert record.came_after_s is not None
    assert record.came_after_s <= sent_s


class NoText(str):
    """The name of a header in bytes that are no UTF-8: other clients send such."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return b"\xff\xfe"


def test_a_record_that_cannot_be_read_is_handed_over_as_damaged_and_the_rest_comes(bus, topics, producer, join):
    send(producer, topics[0], "before")
    partition = 0
    producer._kafka.send(topics[0], value=b"unreadable", partition=partition, headers=[(NoText("x"), b"")])
    assert producer.flush(PATIENCE_S)
    for number in range(20):
        send(producer, topics[0], f"after {number}")
    records = poll_records(22, join()[0])
    [damaged] = [record for record in records if record.damaged]
    assert (damaged.partition, damaged.value) == (Partition(topics[0], partition), None)
    assert values_of([record for record in records if not record.damaged]) == sorted(
        ["before", *(f"after {number}" for number in range(20))]
    )
    assert len({(record.partition, record.offset) for record in records}) == 22


def test_what_follows_in_a_damaged_batch_is_damaged_too_and_nothing_is_lost(bus, topics, producer, join):
    for number in range(10):
        headers = [(NoText("x"), b"")] if number == 4 else []
        producer._kafka.send(topics[0], value=b"%d" % number, partition=0, headers=headers)
    assert producer.flush(PATIENCE_S)
    records = poll_records(10, join()[0])
    assert [record.offset for record in records] == list(range(10))
    assert [record.damaged for record in records][:5] == [False] * 4 + [True]

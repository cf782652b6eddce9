"""The bus in memory keeps what every bus promises, and does what tests tell it."""

import time

import pytest

from pipeline.bus.base import Position
from pipeline.bus.errors import BusError, StaleMember
from pipeline.bus.memory import MemoryBus
from tests.contract.bus_contract import *  # noqa: F403  (the contract's tests and fixtures)
from tests.contract.bus_contract import idle, message, poll_records, poll_until, send, whole


@pytest.fixture
def topics() -> list[str]:
    return ["jobs", "results"]


@pytest.fixture
def bus(topics: list[str]) -> MemoryBus:
    return MemoryBus(dict.fromkeys(topics, 2))


@pytest.mark.parametrize("step", ["poll", "commit", "send", "transaction"])
def test_steps_fail_as_told_and_then_work_again(bus, topics, join, step):
    consumer, heard = join()
    poll_until(lambda: bool(heard.held), consumer)
    producer, writer = bus.producer(), bus.transactional_producer(transactional_id="w")
    writer.begin()
    steps = {
        "poll": lambda: consumer.poll(0),
        "commit": lambda: consumer.commit({}),
        "send": lambda: producer.send(message(topics[0])),
        "transaction": lambda: writer.commit({}, member=consumer.membership(), timeout_s=1),
    }
    bus.fail_next(step, BusError("away", retryable=True))
    with pytest.raises(BusError, match="away"):
        steps[step]()
    steps[step]()


def test_an_acknowledgement_can_be_a_failure(bus, topics):
    told: list[Exception | None] = []
    gone = BusError("gone", retryable=True)
    bus.fail_next("acknowledge", gone)
    bus.producer().send(message(topics[0]), told.append)
    assert told == [gone]
    assert bus.records(topics[0]) == []


def test_an_evicted_member_has_lost_its_partitions_and_joins_again(bus, topics, join):
    consumer, heard = join()
    poll_until(lambda: bool(heard.held), consumer)
    bus.evict(consumer)
    with pytest.raises(StaleMember):
        consumer.commit({})
    poll_until(lambda: len(heard.events) == 3, consumer)
    assert [kind for kind, _ in heard.events] == ["assigned", "lost", "assigned"]
    assert heard.held == whole(topics[0])


def test_a_rebalance_comes_when_and_as_the_test_wants_it(bus, topics, join):
    (first, heard), (second, heard_second) = join(), join()
    poll_until(lambda: len(heard.held) == len(heard_second.held) == 1, first, second)
    bus.rebalance({second: sorted(whole(topics[0]))})
    poll_until(lambda: heard_second.held == whole(topics[0]), first, second)
    assert heard.held == set()


def test_a_failed_transaction_can_be_undone(bus, topics, join):
    consumer, heard = join()
    poll_until(lambda: bool(heard.held), consumer)
    writer = bus.transactional_producer(transactional_id="w")
    told: list[Exception | None] = []
    writer.begin()
    writer.send(message(topics[1]), told.append)
    bus.fail_next("transaction", BusError("away", retryable=True))
    with pytest.raises(BusError):
        writer.commit({}, member=consumer.membership(), timeout_s=1)
    writer.abort()
    assert bus.records(topics[1]) == []
    assert [type(error) for error in told] == [BusError]


def test_records_that_were_read_but_not_committed_come_again_after_an_eviction(bus, topics, producer, join):
    send(producer, topics[0], "a", "b")
    consumer, _ = join()
    first, second = poll_records(2, consumer)
    consumer.commit({first.partition: Position(first.offset + 1)})
    bus.evict(consumer)
    again = poll_records(1, consumer)
    assert second in again


def test_records_that_come_again_after_an_eviction_have_not_become_younger(bus, topics, producer, join):
    consumer, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), consumer)
    idle(consumer)
    sent_s = time.monotonic()
    send(producer, topics[0], *"abcdef")
    poll_records(6, consumer)
    idle(consumer)
    bus.evict(consumer)
    assert all(record.came_after_s is None or record.came_after_s <= sent_s for record in poll_records(6, consumer))

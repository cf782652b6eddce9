"""Answers and offsets are stored together or not at all, once, and only by whoever owns the records."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from pipeline.bus.base import Membership, Offsets, Outgoing, Partition
from pipeline.bus.errors import BusError, Fenced
from pipeline.bus.memory import MemoryBus, MemoryConsumer, MemoryTransactionalProducer
from pipeline.bus.topics import MAX_MESSAGE_BYTES
from pipeline.service import transactions as module
from pipeline.service.ledger import Claim, Ledger
from pipeline.service.outbox import Parcel
from pipeline.service.transactions import TransactionalOutbox
from tests.unit.service_parts import TOPICS, begin_one, memory_bus, offsets, partition, wait_for

AWAY = BusError("the broker is away", retryable=True)


@dataclass
class Member:
    """A member of the group with a ledger of what it owns."""

    bus: MemoryBus
    transactional_id: str = "slot"
    ledger: Ledger = field(default_factory=Ledger)
    died: list[BusError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.consumer: MemoryConsumer = self.bus.consumer(group_id="group", client_id="test")
        self.consumer.subscribe([TOPICS.realtime], self)
        self.consumer.poll(0)
        self.outbox = TransactionalOutbox(
            lambda: self.bus.transactional_producer(transactional_id=self.transactional_id),
            self.consumer,
            self.ledger,
            died=self.died.append,
        )

    def assigned(self, partitions: Sequence[Partition]) -> None:
        self.ledger.assign(partitions, self.consumer.committed(partitions))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self.ledger.revoke(partitions)

    lost = revoked

    def start(self) -> "Member":
        self.outbox.start()
        return self

    def claim(self, offset: int = 0) -> Claim:
        return begin_one(self.ledger, offset=offset)

    def put(self, *claims: Claim) -> None:
        for claim in claims:
            self.outbox.put(Parcel(claim, [message("line", TOPICS.sla), message(f"answer {claim.offset}")]))


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for wait in ("GATHER_S", "BACKOFF_S", "REJOIN_S"):
        monkeypatch.setattr(module, wait, 0.001)
    logging.getLogger(module.__name__).setLevel(logging.CRITICAL)


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus()


@pytest.fixture
def member(bus: MemoryBus) -> Iterator[Member]:
    member = Member(bus)
    yield member.start()
    member.outbox.close(0)


def message(body: str = "body", topic: str = TOPICS.results) -> Outgoing:
    return Outgoing(topic, b"key", body.encode())


def answers(bus: MemoryBus, topic: str = TOPICS.results) -> list[str]:
    return [(record.value or b"").decode() for record in bus.records(topic)]


def committed(bus: MemoryBus) -> dict[Partition, int]:
    return offsets(bus.group("group").committed)


def test_answers_come_with_their_offsets(bus, member):
    member.put(member.claim(0), member.claim(1))
    assert member.outbox.close(5)
    assert answers(bus) == ["answer 0", "answer 1"]
    assert answers(bus, TOPICS.sla) == ["line", "line"]
    assert committed(bus) == {partition(): 2}
    assert member.ledger.open() == 0
    assert member.ledger.positions() == {}


def test_what_is_answered_out_of_order_is_noted_with_the_commit(bus, member):
    first, second = member.claim(0), member.claim(1)
    member.put(second)
    wait_for(lambda: member.outbox.unstored == 0)
    position = bus.group("group").committed[partition()]
    assert (position.offset, position.metadata) == (0, "[[1,1]]")
    member.put(first)
    assert member.outbox.close(5)
    assert committed(bus) == {partition(): 2}


def test_a_parcel_is_told_that_it_is_stored_when_its_transaction_is_and_not_before(bus, member, monkeypatch):
    commit = MemoryTransactionalProducer.commit
    told: list[str] = []

    def note_when(self: MemoryTransactionalProducer, *args: Offsets, **more: Membership) -> None:
        told.append("transaction")
        commit(self, *args, **more)

    monkeypatch.setattr(MemoryTransactionalProducer, "commit", note_when)
    bus.fail_next("transaction", AWAY)
    member.outbox.put(Parcel(member.claim(), [message("answer")], stored=lambda: told.append("stored")))
    assert member.outbox.close(5)
    assert told == ["transaction", "transaction", "stored"]


@pytest.mark.parametrize("step", ["send", "transaction"])
def test_a_transaction_that_fails_is_made_again_and_seen_once(step, bus, member):
    bus.fail_next(step, AWAY, times=3)
    member.put(member.claim())
    assert member.outbox.close(5)
    assert answers(bus) == ["answer 0"]
    assert answers(bus, TOPICS.sla) == ["line"]


def test_a_transaction_that_was_stored_though_nobody_said_so_is_not_made_again(bus, member, monkeypatch):
    commit = MemoryTransactionalProducer.commit

    def commit_and_fall_silent(self: MemoryTransactionalProducer, *args: Offsets, **more: Membership) -> None:
        commit(self, *args, **more)
        monkeypatch.setattr(MemoryTransactionalProducer, "commit", commit)
        raise AWAY

    monkeypatch.setattr(MemoryTransactionalProducer, "commit", commit_and_fall_silent)
    member.put(member.claim())
    assert member.outbox.close(5)
    assert answers(bus) == ["answer 0"]
    assert member.ledger.open() == 0


def test_what_the_bus_never_takes_is_replaced(bus, member):
    parcel = Parcel(member.claim(), [message("x" * MAX_MESSAGE_BYTES)], undeliverable=lambda *_: [message("short")])
    member.outbox.put(parcel)
    assert member.outbox.close(5)
    assert answers(bus) == ["short"]


def test_without_anything_instead_the_record_stays_open_and_others_go_on(bus, member):
    member.outbox.put(Parcel(member.claim(0), [message("x" * MAX_MESSAGE_BYTES)]))
    member.put(member.claim(1))
    assert member.outbox.close(5)
    assert answers(bus) == ["answer 1"]
    assert committed(bus) == {partition(): 0}
    assert member.ledger.open() == 1


def test_whoever_takes_the_id_over_ends_the_older_one(bus, member):
    successor = bus.transactional_producer(transactional_id="slot")
    member.put(member.claim())
    wait_for(lambda: bool(member.died))
    assert isinstance(member.died[0], Fenced)
    assert not member.outbox.close(5)
    assert answers(bus) == []
    successor.begin()


def test_a_member_that_was_thrown_out_stores_nothing_of_what_it_had(bus, member):
    claim = member.claim()
    bus.evict(member.consumer)
    member.put(claim)
    assert not member.outbox.close(0.1)
    assert answers(bus) == []


def test_a_member_that_was_thrown_out_drops_its_answers_once_it_hears_of_it(bus, member):
    claim = member.claim()
    bus.evict(member.consumer)
    member.put(claim)
    member.consumer.poll(0)
    wait_for(lambda: member.outbox.unstored == 0)
    assert answers(bus) == []
    member.put(member.claim())
    assert member.outbox.close(5)
    assert answers(bus) == ["answer 0"]


def test_a_rebalance_that_leaves_the_records_where_they_are_delays_nothing_for_long(bus, member):
    claim = member.claim()
    other = bus.consumer(group_id="group", client_id="other")
    other.subscribe([TOPICS.realtime], Member(bus, transactional_id="other"))
    bus.rebalance({member.consumer: [partition()]})
    member.put(claim)
    member.consumer.poll(0)
    assert member.outbox.close(5)
    assert answers(bus) == ["answer 0"]


def test_the_thread_says_so_when_it_breaks(bus, member):
    bus.fail_next("transaction", ZeroDivisionError())
    member.put(member.claim())
    wait_for(lambda: bool(member.died))
    assert "ZeroDivisionError" in str(member.died[0])

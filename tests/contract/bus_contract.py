"""What every bus promises. Run over the one in memory (test_bus.py) and over a real broker (test_bus_contract.py).

Both define the fixtures ``bus`` and ``topics`` (a few new topic names with two partitions each) and import these tests.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from pipeline.bus.base import Bus, Consumer, Outgoing, Partition, Position, Producer, Record, TransactionalProducer
from pipeline.bus.errors import BusError, Fenced, StaleMember
from pipeline.bus.topics import MAX_MESSAGE_BYTES

PATIENCE_S = 20.0


@dataclass
class Heard:
    """A rebalance listener that remembers, and does what it was told."""

    events: list[tuple[str, tuple[Partition, ...]]] = field(default_factory=list)
    held: set[Partition] = field(default_factory=set)
    when_revoked: Callable[[Sequence[Partition]], None] = lambda _partitions: None
    when_assigned: Callable[[Sequence[Partition]], None] = lambda _partitions: None

    def assigned(self, partitions: Sequence[Partition]) -> None:
        self.events.append(("assigned", tuple(partitions)))
        self.held |= set(partitions)
        self.when_assigned(partitions)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self.events.append(("revoked", tuple(partitions)))
        self.held -= set(partitions)
        self.when_revoked(partitions)

    def lost(self, partitions: Sequence[Partition]) -> None:
        self.events.append(("lost", tuple(partitions)))
        self.held -= set(partitions)


def poll_until(done: Callable[[], bool], *consumers: Consumer) -> list[Record]:
    """Poll in turn until ``done``; return all that came."""
    came: list[Record] = []
    ends_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < ends_s, "it did not happen"
        for consumer in consumers:
            came += consumer.poll(0.05)
    return came


def poll_records(count: int, *consumers: Consumer) -> list[Record]:
    """Poll until ``count`` records have come."""
    came: list[Record] = []
    ends_s = time.monotonic() + PATIENCE_S
    while len(came) < count:
        assert time.monotonic() < ends_s, f"{len(came)} of {count} records came"
        for consumer in consumers:
            came += consumer.poll(0.05)
    return came


def nothing_comes(*consumers: Consumer) -> bool:
    """Whether half a second of polling brings no record."""
    return not any(consumer.poll(0.1) for _ in range(5) for consumer in consumers)


class Backgrounds(contextlib.ExitStack):
    """Members that poll on threads of their own, as rebalances of a real group need."""

    def poll(self, consumer: Consumer) -> None:
        stop = threading.Event()

        def run() -> None:
            while not stop.is_set():
                consumer.poll(0.05)

        thread = threading.Thread(target=run)
        thread.start()
        self.callback(thread.join)
        self.callback(stop.set)


@pytest.fixture
def opened() -> Iterator[contextlib.ExitStack]:
    """Closes whatever a test has opened."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def join(bus: Bus, topics: list[str], opened: contextlib.ExitStack) -> Callable[..., tuple[Consumer, Heard]]:
    """Returns a new member of a group of the first topic."""

    def join(group_id: str = "readers", heard: Heard | None = None) -> tuple[Consumer, Heard]:
        heard = heard or Heard()
        consumer = bus.consumer(group_id=f"{topics[0]}.{group_id}", client_id="a test")
        opened.callback(consumer.close)
        consumer.subscribe(topics[:1], heard)
        return consumer, heard

    return join


@pytest.fixture
def producer(bus: Bus, opened: contextlib.ExitStack) -> Producer:
    producer = bus.producer(client_id="a test")
    opened.callback(producer.close)
    return producer


def message(topic: str, value: bytes = b"{}", key: bytes | None = None) -> Outgoing:
    return Outgoing(topic, key=key, value=value)


def send(producer: Producer, topic: str, *values: str) -> None:
    """Send values, each under itself as key, and wait until they are stored."""
    for value in values:
        producer.send(message(topic, value.encode(), key=value.encode()))
    assert producer.flush(PATIENCE_S)


def values_of(records: Sequence[Record]) -> list[str]:
    return sorted((record.value or b"").decode() for record in records)


def whole(topic: str) -> set[Partition]:
    return {Partition(topic, 0), Partition(topic, 1)}


def test_what_is_sent_comes_as_it_was(bus, topics, producer, join):
    headers = (("ce_id", b"1"), ("odd", b"\xff\x00"), ("ce_id", b"2"))
    producer.send(Outgoing(topics[0], key=b"k", value=b"v\x00\xff", headers=headers))
    assert producer.flush(PATIENCE_S)
    [record] = poll_records(1, join()[0])
    assert (record.key, record.value, record.headers) == (b"k", b"v\x00\xff", headers)
    assert record.partition.topic == topics[0]
    assert abs(record.timestamp_ms / 1000 - time.time()) < 60


def test_a_tombstone_comes_without_a_value(topics, producer, join):
    producer.send(Outgoing(topics[0], key=b"k", value=None))
    [record] = poll_records(1, join()[0])
    assert (record.key, record.value, record.headers) == (b"k", None, ())


def test_records_of_one_key_come_in_order_from_one_partition(topics, producer, join):
    for number in range(50):
        producer.send(message(topics[0], str(number).encode(), key=b"same"))
    records = poll_records(50, join()[0])
    assert [int(record.value or b"") for record in records] == list(range(50))
    assert len({record.partition for record in records}) == 1
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))


def test_a_new_group_begins_with_the_oldest_record(topics, producer, join):
    send(producer, topics[0], "a", "b")
    assert values_of(poll_records(2, join()[0])) == ["a", "b"]


def test_the_first_member_gets_all_partitions_and_hears_of_no_empty_changes(topics, join):
    consumer, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), consumer)
    assert [kind for kind, partitions in heard.events] == ["assigned"]


def test_polling_an_idle_topic_takes_its_time_and_brings_nothing(join):
    consumer, heard = join()
    poll_until(lambda: bool(heard.held), consumer)
    begun_s = time.monotonic()
    assert list(consumer.poll(0.2)) == []
    assert time.monotonic() - begun_s >= 0.15


def idle(consumer: Consumer) -> None:
    """Poll until every partition has been looked into while nothing was in it."""
    assert nothing_comes(consumer)


def test_a_record_is_known_to_be_no_older_than_the_last_look_into_its_partition(topics, producer, join):
    consumer, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), consumer)
    idle(consumer)
    looked_s = time.monotonic()
    idle(consumer)
    sent_s = time.monotonic()
    send(producer, topics[0], *"abcdef")
    assert all(looked_s < record.came_after_s <= sent_s for record in poll_records(6, consumer))


def test_of_records_that_were_there_before_it_is_not_known_how_old_they_are(topics, producer, join):
    send(producer, topics[0], *map(str, range(300)))
    records = poll_records(300, join()[0])
    assert {record.came_after_s for record in records} == {None}


def test_records_never_count_as_younger_than_they_are_when_they_gathered_during_a_pause(topics, producer, join):
    consumer, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), consumer)
    idle(consumer)
    consumer.pause(sorted(heard.held))
    assert nothing_comes(consumer)
    sent_s = time.monotonic()
    send(producer, topics[0], *map(str, range(300)))
    assert nothing_comes(consumer)
    consumer.resume(sorted(heard.held))
    records = poll_records(300, consumer)
    assert all(record.came_after_s is not None and record.came_after_s <= sent_s for record in records)


def test_the_next_member_does_not_take_what_it_finds_for_new(topics, producer, join):
    first, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), first)
    idle(first)
    send(producer, topics[0], *"abcdef")
    first.close()
    assert {record.came_after_s for record in poll_records(6, join()[0])} == {None}


def test_a_member_is_confirmed_when_the_group_has_taken_it_in_and_not_before(topics, join):
    first, heard = join()
    assert first.confirmed_s == float("-inf")
    poll_until(lambda: heard.held == whole(topics[0]), first)
    assert time.monotonic() - first.confirmed_s < 5


def test_a_member_without_partitions_is_confirmed_too(topics, join):
    members = [join() for _ in range(3)]
    with Backgrounds() as background:
        for consumer, _ in members[1:]:
            background.poll(consumer)
        first, _ = members[0]
        poll_until(lambda: all(consumer.confirmed_s > float("-inf") for consumer, _ in members), first)
        poll_until(lambda: sum(len(heard.held) for _, heard in members) == 2, first)
    assert min(len(heard.held) for _, heard in members) == 0


def test_preparing_names_the_topics_that_are_missing_and_the_others_can_be_sent_to(topics, producer, join):
    missing = f"{topics[0]}.missing"
    trouble = producer.prepare([topics[0], missing, topics[1]])
    assert list(trouble) == [missing]
    assert trouble[missing].retryable
    assert missing in str(trouble[missing])
    assert producer.prepare(topics) == {}
    send(producer, topics[0], "a")
    assert values_of(poll_records(1, join()[0])) == ["a"]


def test_an_acknowledgement_comes_once_when_the_message_is_stored(topics, producer):
    told: list[Exception | None] = []
    producer.send(message(topics[0]), told.append)
    assert producer.flush(PATIENCE_S)
    assert told == [None]


def test_a_message_that_is_too_large_is_refused_at_once(topics, producer):
    with pytest.raises(BusError) as raised:
        producer.send(message(topics[0], b"x" * (MAX_MESSAGE_BYTES + 1)))
    assert not raised.value.retryable


def test_a_message_of_nearly_the_largest_size_arrives(topics, producer, join):
    producer.send(message(topics[0], b"x" * (MAX_MESSAGE_BYTES - 1024)))
    assert producer.flush(PATIENCE_S)
    [record] = poll_records(1, join()[0])
    assert len(record.value or b"") == MAX_MESSAGE_BYTES - 1024


def test_an_unknown_topic_is_an_error_that_may_pass(topics, producer):
    with pytest.raises(BusError) as raised:
        producer.send(message(f"{topics[0]}.missing"))
    assert raised.value.retryable


def test_the_next_member_goes_on_where_the_commit_says_and_reads_its_note(topics, producer, join):
    send(producer, topics[0], *"abcdef")
    first, _ = join()
    records = poll_records(6, first)
    half = [record for record in records if record.offset == 0]
    commits = {record.partition: Position(1, f"note {record.partition.number}") for record in half}
    first.commit(commits)
    first.close()
    second, _ = join()
    assert len(poll_records(6 - len(half), second)) == 6 - len(half)
    assert second.committed(sorted(whole(topics[0]))) == commits
    assert nothing_comes(second)


def test_partitions_without_a_commit_are_left_out(topics, join):
    consumer, heard = join()
    poll_until(lambda: bool(heard.held), consumer)
    assert consumer.committed(sorted(whole(topics[0]))) == {}


def test_groups_do_not_know_of_each_other(topics, producer, join):
    send(producer, topics[0], "a")
    assert values_of(poll_records(1, join("one")[0])) == ["a"]
    assert values_of(poll_records(1, join("other")[0])) == ["a"]


def test_paused_partitions_keep_their_records_until_they_are_resumed(topics, producer, join):
    consumer, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), consumer)
    consumer.pause(sorted(heard.held))
    send(producer, topics[0], *"abcdef")
    assert nothing_comes(consumer)
    consumer.resume(sorted(heard.held))
    assert values_of(poll_records(6, consumer)) == list("abcdef")


def test_pausing_what_is_not_assigned_does_nothing(topics, join):
    consumer, _ = join()
    consumer.pause([Partition(topics[0], 0), Partition("elsewhere", 3)])
    consumer.resume([Partition("elsewhere", 3)])


def test_the_lag_counts_what_has_not_come(topics, producer, join):
    consumer, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), consumer)
    assert consumer.lag() == dict.fromkeys(whole(topics[0]), 0)
    consumer.pause(sorted(heard.held))
    send(producer, topics[0], *"abcdefghij")
    consumer.poll(0.3)
    assert sum(consumer.lag().values()) == 10
    consumer.resume(sorted(heard.held))
    poll_records(10, consumer)
    assert sum(consumer.lag().values()) == 0


def test_a_poll_is_woken_from_another_thread(join):
    consumer, heard = join()
    poll_until(lambda: bool(heard.held), consumer)
    timer = threading.Timer(0.1, consumer.wake)
    timer.start()
    begun_s = time.monotonic()
    consumer.poll(10)
    timer.join()
    assert time.monotonic() - begun_s < 5


def test_a_second_member_gets_half_and_the_first_keeps_the_other_half(topics, join):
    first, heard = join()
    poll_until(lambda: heard.held == whole(topics[0]), first)
    with Backgrounds() as background:
        background.poll(first)
        second, heard_second = join()
        poll_until(lambda: len(heard_second.held) == 1, second)
    assert len(heard.held) == 1
    assert heard.held | heard_second.held == whole(topics[0])
    revoked = [partitions for kind, partitions in heard.events if kind == "revoked"]
    assert [len(partitions) for partitions in revoked] == [1], "what it keeps is never revoked"


def test_offsets_committed_while_being_revoked_count(topics, producer, join):
    send(producer, topics[0], *"abcdefghijkl")
    first, heard = join()
    next_offsets: dict[Partition, int] = {}

    def commit(partitions: Sequence[Partition]) -> None:
        first.commit({partition: Position(next_offsets[partition]) for partition in partitions})

    heard.when_revoked = commit
    for record in poll_records(12, first):
        next_offsets[record.partition] = record.offset + 1
    with Backgrounds() as background:
        background.poll(first)
        second, heard_second = join()
        poll_until(lambda: len(heard_second.held) == 1, second)
        assert nothing_comes(second)


def test_the_commit_can_be_read_while_partitions_are_assigned(topics, producer, join):
    send(producer, topics[0], "a")
    first, _ = join()
    [record] = poll_records(1, first)
    first.commit({record.partition: Position(record.offset + 1, "seen")})
    first.close()
    heard = Heard()
    found: dict[Partition, Position] = {}
    second, _ = join(heard=heard)
    heard.when_assigned = lambda partitions: found.update(second.committed(partitions))
    poll_until(lambda: heard.held == whole(topics[0]), second)
    assert found == {record.partition: Position(record.offset + 1, "seen")}


def test_closing_revokes_and_lets_others_take_over_at_once(topics, join):
    first, heard = join()
    second, heard_second = join()
    poll_until(lambda: heard.held == whole(topics[0]) or bool(heard_second.held), first, second)
    begun_s = time.monotonic()
    first.close()
    poll_until(lambda: heard_second.held == whole(topics[0]), second)
    assert time.monotonic() - begun_s < 5, "no session has to time out"
    assert heard.held == set()


def test_a_listener_that_fails_is_heard(topics, join):
    heard = Heard()

    def fail(_partitions: Sequence[Partition]) -> None:
        raise ZeroDivisionError

    heard.when_assigned = fail
    consumer, _ = join(heard=heard)
    with pytest.raises((BusError, ZeroDivisionError)):
        poll_until(lambda: False, consumer)


def test_closing_twice_is_safe(bus, topics, join):
    consumer, _ = join()
    consumer.close()
    consumer.close()
    producer = bus.producer(client_id="a test")
    producer.close()
    producer.close()


def test_a_closed_producer_says_so(bus, topics):
    producer = bus.producer(client_id="a test")
    producer.close()
    with pytest.raises(BusError):
        producer.send(message(topics[0]))


@pytest.fixture
def transactional(bus: Bus, topics: list[str], opened: contextlib.ExitStack) -> Callable[[], TransactionalProducer]:
    def transactional() -> TransactionalProducer:
        producer = bus.transactional_producer(transactional_id=f"{topics[0]}.writer")
        opened.callback(producer.close)
        return producer

    return transactional


@pytest.fixture
def reads_results(bus: Bus, topics: list[str], opened: contextlib.ExitStack) -> Consumer:
    """Reads the second topic."""
    heard = Heard()
    consumer = bus.consumer(group_id=f"{topics[1]}.readers", client_id="a test")
    opened.callback(consumer.close)
    consumer.subscribe(topics[1:2], heard)
    poll_until(lambda: heard.held == whole(topics[1]), consumer)
    return consumer


def test_a_transaction_shows_its_messages_and_offsets_together(topics, producer, join, transactional, reads_results):
    send(producer, topics[0], "a")
    consumer, _ = join()
    [record] = poll_records(1, consumer)
    writer = transactional()
    writer.begin()
    told: list[Exception | None] = []
    writer.send(message(topics[1], b"answer"), told.append)
    assert nothing_comes(reads_results)
    offsets = {record.partition: Position(record.offset + 1, "note")}
    writer.commit(offsets, member=consumer.membership(), timeout_s=PATIENCE_S)
    assert values_of(poll_records(1, reads_results)) == ["answer"]
    assert consumer.committed([record.partition]) == offsets
    assert told == [None]


def test_a_producer_of_transactions_can_be_prepared_outside_of_them(topics, join, transactional, reads_results):
    consumer, heard = join()
    poll_until(lambda: bool(heard.held), consumer)
    writer = transactional()
    assert writer.prepare(topics) == {}
    writer.begin()
    writer.send(message(topics[1], b"answer"))
    writer.commit({}, member=consumer.membership(), timeout_s=PATIENCE_S)
    assert values_of(poll_records(1, reads_results)) == ["answer"]


def test_an_aborted_transaction_shows_nothing_and_the_next_one_works(topics, join, transactional, reads_results):
    consumer, heard = join()
    poll_until(lambda: bool(heard.held), consumer)
    writer = transactional()
    writer.begin()
    writer.send(message(topics[1], b"never"))
    writer.abort()
    writer.begin()
    writer.send(message(topics[1], b"answer"))
    writer.commit({}, member=consumer.membership(), timeout_s=PATIENCE_S)
    assert values_of(poll_records(1, reads_results)) == ["answer"]
    assert nothing_comes(reads_results)


def test_a_producer_whose_id_was_taken_over_is_fenced(topics, producer, join, transactional, reads_results):
    send(producer, topics[0], "a")
    consumer, _ = join()
    [record] = poll_records(1, consumer)
    zombie = transactional()
    zombie.begin()
    zombie.send(message(topics[1], b"from the grave"))
    successor = transactional()
    offsets = {record.partition: Position(record.offset + 1)}
    with pytest.raises(Fenced):
        zombie.commit(offsets, member=consumer.membership(), timeout_s=PATIENCE_S)
    successor.begin()
    successor.send(message(topics[1], b"answer"))
    successor.commit(offsets, member=consumer.membership(), timeout_s=PATIENCE_S)
    assert values_of(poll_records(1, reads_results)) == ["answer"]
    assert nothing_comes(reads_results)


def test_a_member_that_the_group_went_on_without_cannot_commit_a_transaction(
    topics, producer, join, transactional, reads_results
):
    send(producer, topics[0], "a")
    consumer, _ = join()
    [record] = poll_records(1, consumer)
    left = consumer.membership()
    consumer.close()
    writer = transactional()
    writer.begin()
    writer.send(message(topics[1], b"too late"))
    with pytest.raises(StaleMember):
        writer.commit({record.partition: Position(record.offset + 1)}, member=left, timeout_s=PATIENCE_S)
    writer.abort()
    assert nothing_comes(reads_results)


def test_commits_of_different_threads_do_not_disturb_sending(topics, producer, join):
    consumer, _ = join()
    threads = [threading.Thread(target=partial(send, producer, topics[0], str(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    records = poll_records(8, consumer)
    for thread in threads:
        thread.join()
    assert values_of(records) == [str(n) for n in range(8)]

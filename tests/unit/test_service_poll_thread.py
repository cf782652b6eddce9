"""One thread polls, hands over, commits what is settled, and ends with a reason."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from pipeline.bus.base import Offsets, Partition, Position, Record
from pipeline.bus.errors import BusError
from pipeline.bus.memory import MemoryBus, MemoryConsumer
from pipeline.service import poll_thread as module
from pipeline.service.ledger import Ledger
from pipeline.service.poll_thread import PollThread
from schemas.job import Lane
from tests.unit.service_parts import TOPICS, job, job_message, memory_bus, offsets, partition, wait_for

JOBS = [TOPICS.realtime, TOPICS.backfill]
AWAY = BusError("the broker is away", retryable=True)
REFUSED = BusError("not allowed", retryable=False)


class Member:
    """A poll thread with what it polls and whom it tells."""

    def __init__(self, bus: MemoryBus, consumer: MemoryConsumer | None = None) -> None:
        self.bus = bus
        self.consumer = consumer or bus.consumer(group_id="group", client_id="test")
        self.ledger = Ledger()
        self.records: list[Record] = []
        self.died: list[BusError | None] = []
        self.loop_runs = True
        self.thread = PollThread(
            self.consumer, self.ledger, topics=JOBS, hand_over=self.hand_over, died=self.died.append
        )

    def hand_over(self, records: Sequence[Record]) -> None:
        self.records += records
        if self.loop_runs:
            self.thread.taken(len(records))

    def loop_goes_on(self) -> None:
        """Take all that was handed over while the loop was stuck."""
        self.loop_runs = True
        self.thread.taken(len(self.records))

    def start(self, partitions: int = 4) -> "Member":
        self.thread.start()
        wait_for(lambda: len(self.ledger.partitions) == partitions)
        return self

    def begin(self, record: Record) -> Callable[[], None]:
        claim = self.ledger.begin(record.partition, record.offset, as_of=self.ledger.term)
        assert claim is not None
        return lambda: self.ledger.settle(claim)

    def come(self, count: int) -> list[Record]:
        wait_for(lambda: len(self.records) >= count)
        return self.records

    def polls_once_more(self) -> None:
        """Wait for two rounds: the first may have begun before whatever the test did."""
        for _ in range(2):
            before_s = self.thread.last_poll_s
            self.consumer.wake()
            wait_for(lambda before_s=before_s: self.thread.last_poll_s > before_s or bool(self.died))

    @property
    def committed(self) -> dict[Partition, int]:
        return offsets(self.bus.group("group").committed)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.0)
    monkeypatch.setattr(module, "COMMIT_EVERY_S", 0.0)
    monkeypatch.setattr(module, "REVOKE_WAIT_S", 0.0)
    logging.getLogger(module.__name__).setLevel(logging.CRITICAL)


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus(partitions=2)


@pytest.fixture
def member(bus: MemoryBus) -> Iterator[Member]:
    member = Member(bus)
    yield member
    if member.thread._thread.is_alive():
        member.thread.stop(5)


def send(bus: MemoryBus, count: int = 1, lane: Lane = Lane.REALTIME, video_id: str = "v") -> None:
    for _ in range(count):
        bus.producer().send(job_message(job(video_id=video_id, lane=lane)))


def test_records_of_both_lanes_are_handed_over_in_order(bus, member):
    send(bus, 3)
    send(bus, 1, Lane.BACKFILL)
    member.start()
    came = member.come(4)
    assert [record.offset for record in came if record.partition.topic == TOPICS.realtime] == [0, 1, 2]
    assert sum(record.partition.topic == TOPICS.backfill for record in came) == 1


def test_what_is_settled_is_committed_and_what_is_not_is_not(bus, member):
    send(bus, 2)
    member.start()
    first, second = member.come(2)
    settle_first, _ = member.begin(first), member.begin(second)
    settle_first()
    wait_for(lambda: member.committed == {first.partition: 1})
    member.polls_once_more()
    assert member.committed == {first.partition: 1}


def test_nothing_is_committed_twice(bus, member, monkeypatch):
    commits: list[Offsets] = []
    commit = member.consumer.commit
    monkeypatch.setattr(member.consumer, "commit", lambda offsets: (commits.append(offsets), commit(offsets)))
    send(bus)
    member.start()
    [first] = member.come(1)
    member.begin(first)()
    wait_for(lambda: bool(member.committed))
    for _ in range(5):
        member.polls_once_more()
    assert sum(position.offset == 1 for offsets in commits for position in offsets.values()) == 1


def test_commits_are_not_made_more_often_than_need_be(bus, member, monkeypatch):
    monkeypatch.setattr(module, "COMMIT_EVERY_S", 3600.0)
    send(bus)
    member.start()
    [first] = member.come(1)
    member.begin(first)()
    member.polls_once_more()
    assert member.committed == {}
    assert member.thread.stop(5)
    assert member.committed == {first.partition: 1}


@pytest.mark.parametrize("error", [AWAY, REFUSED])
def test_a_commit_that_fails_is_made_up_for_by_the_next(error, bus, member):
    send(bus)
    member.start()
    [first] = member.come(1)
    bus.fail_next("commit", error, times=2)
    member.begin(first)()
    wait_for(lambda: member.committed == {first.partition: 1})
    assert member.died == []


def test_what_was_settled_is_committed_before_a_partition_is_let_go(bus, member, monkeypatch):
    monkeypatch.setattr(module, "COMMIT_EVERY_S", 3600.0)
    send(bus, 2)
    member.start()
    first, second = member.come(2)
    settle_first, settle_second = member.begin(first), member.begin(second)
    settle_first()
    kept = [at for at in member.ledger.partitions if at != first.partition]
    bus.rebalance({member.consumer: kept})
    wait_for(lambda: first.partition not in member.ledger.partitions)
    assert member.committed == {first.partition: 1}
    settle_second()
    member.polls_once_more()
    assert member.committed == {first.partition: 1}
    assert sorted(member.ledger.partitions) == sorted(kept)


def test_an_answer_under_way_gets_a_moment_when_its_partition_is_taken_away(bus, member, monkeypatch):
    monkeypatch.setattr(module, "COMMIT_EVERY_S", 3600.0)
    monkeypatch.setattr(module, "REVOKE_WAIT_S", 20.0)
    send(bus)
    member.start()
    [first] = member.come(1)
    settle = member.begin(first)
    bus.rebalance({member.consumer: []})
    wait_for(lambda: not member.consumer._positions)  # it has heard of it, and is being asked to let go
    assert first.partition in member.ledger.partitions
    settle()
    wait_for(lambda: member.ledger.partitions == ())
    assert member.committed == {first.partition: 1}


def test_of_a_lost_partition_nothing_is_committed(bus, member):
    send(bus)
    member.start()
    [first] = member.come(1)
    settle = member.begin(first)
    commits_before = member.committed
    bus.evict(member.consumer)
    wait_for(lambda: len(member.records) == 2)  # it joined again, and the record came again
    settle()
    member.polls_once_more()
    assert member.committed == commits_before
    assert member.died == []


def test_a_partition_is_taken_over_from_where_the_group_has_committed(bus, member):
    send(bus, 3)
    [at] = {record.partition for record in bus.records(TOPICS.realtime)}
    bus.group("group").committed[at] = Position(1, "[[1,1]]")
    member.start()
    came = member.come(2)
    begun = [member.ledger.begin(at, record.offset, as_of=member.ledger.term) is not None for record in came]
    assert [(record.offset, new) for record, new in zip(came, begun, strict=True)] == [(1, True), (2, False)]


def test_a_topic_that_is_held_gives_nothing_until_it_is_let_go(bus, member):
    member.start()
    member.thread.hold(frozenset([TOPICS.backfill]))
    member.polls_once_more()
    send(bus, 1, Lane.BACKFILL)
    send(bus, 1)
    member.come(1)
    member.polls_once_more()
    assert [record.partition.topic for record in member.records] == [TOPICS.realtime]
    member.thread.hold(frozenset())
    member.come(2)
    assert member.records[1].partition.topic == TOPICS.backfill


def test_a_partition_that_comes_while_its_topic_is_held_is_held_too(bus, member):
    member.thread.hold(frozenset(JOBS))
    send(bus)
    member.start()
    member.polls_once_more()
    member.polls_once_more()
    sure_before_first_hold = member.records[:]
    send(bus)
    member.polls_once_more()
    assert member.records == sure_before_first_hold


def test_a_held_partition_that_was_lost_and_came_back_is_held_again(bus, member):
    member.start()
    member.thread.hold(frozenset(JOBS))
    member.polls_once_more()
    bus.evict(member.consumer)
    wait_for(lambda: len(member.ledger.partitions) == 4)
    for _ in range(3):
        member.polls_once_more()
    send(bus)
    member.polls_once_more()
    assert member.records == []


@pytest.fixture
def stuck(bus: MemoryBus, member: Member, monkeypatch: pytest.MonkeyPatch) -> Member:
    """One whose event loop takes nothing, and has been given as much as it may be."""
    monkeypatch.setattr(module, "MOST_UNTAKEN", 20)
    member.loop_runs = False
    send(bus, 20)
    member.start().come(20)
    member.polls_once_more()
    return member


def test_a_loop_that_is_stuck_is_given_no_more_of_any_topic(bus, stuck):
    send(bus, 1)
    send(bus, 1, Lane.BACKFILL)
    stuck.polls_once_more()
    assert len(stuck.records) == 20


def test_a_member_whose_loop_is_stuck_stays_in_the_group_and_commits(bus, stuck):
    stuck.begin(stuck.records[0])()
    wait_for(lambda: stuck.committed == {stuck.records[0].partition: 1})
    stuck.polls_once_more()
    assert bus.group("group").knows(stuck.consumer.member_id)
    assert stuck.ledger.certain
    assert len(stuck.ledger.partitions) == 4


def test_a_loop_that_has_caught_up_gets_what_came_meanwhile_in_order(bus, stuck):
    send(bus, 40)
    stuck.polls_once_more()
    stuck.loop_goes_on()
    came = stuck.come(60)
    assert [record.offset for record in came] == list(range(60))


def test_a_loop_that_is_half_way_through_gets_nothing_yet(bus, stuck):
    send(bus, 1)
    stuck.thread.taken(19)
    stuck.polls_once_more()
    assert len(stuck.records) == 20
    stuck.thread.taken(1)
    stuck.come(21)


def test_partitions_that_come_to_a_member_whose_loop_is_stuck_give_nothing_either(bus, stuck):
    bus.evict(stuck.consumer)
    wait_for(lambda: bus.group("group").knows(stuck.consumer.member_id))
    stuck.polls_once_more()
    assert len(stuck.ledger.partitions) == 4
    before = len(stuck.records)  # the poll that brings a partition may bring its first records, too
    send(bus, 50)
    stuck.polls_once_more()
    assert len(stuck.records) == before


def test_what_a_topic_held_back_stays_held_when_the_loop_has_caught_up(bus, stuck):
    stuck.thread.hold(frozenset([TOPICS.backfill]))
    send(bus, 1, Lane.BACKFILL)
    send(bus, 1)
    stuck.loop_goes_on()
    stuck.come(21)
    stuck.polls_once_more()
    assert {record.partition.topic for record in stuck.records} == {TOPICS.realtime}


def test_polling_goes_on_when_the_broker_was_away(bus, member):
    member.start()
    bus.fail_next("poll", AWAY, times=3)
    send(bus)
    member.come(1)
    assert member.died == []


def test_a_broker_that_refuses_ends_the_thread_with_the_reason_and_the_group_is_left(bus, member):
    member.start()
    bus.fail_next("poll", REFUSED)
    wait_for(lambda: bool(member.died))
    assert member.died == [REFUSED]
    assert not bus.group("group").knows(member.consumer.member_id)


def test_a_bug_does_not_pass_for_a_good_end(bus, member, monkeypatch):
    member.start()
    monkeypatch.setattr(member.consumer, "poll", lambda _: 1 // 0)
    wait_for(lambda: bool(member.died))
    [reason] = member.died
    assert reason is not None
    assert "ZeroDivisionError" in str(reason)


class ForgetfulConsumer(MemoryConsumer):
    """Cannot say at first what the group has committed."""

    failures: Iterator[BusError]

    def committed(self, partitions: Sequence[Partition]) -> Offsets:
        for error in self.failures:
            raise error
        return super().committed(partitions)


def forgetful(bus: MemoryBus, *errors: BusError) -> Member:
    consumer = ForgetfulConsumer(bus, bus.group("group"), from_end=False)
    consumer.failures = iter(errors)
    return Member(bus, consumer)


def test_no_record_is_passed_over_because_the_committed_offsets_could_not_be_had_at_once(bus):
    send(bus)
    member = forgetful(bus, AWAY, AWAY).start()
    [first] = member.come(1)
    member.begin(first)()
    assert member.thread.stop(5)
    assert member.committed == {first.partition: 1}


def test_a_broker_that_does_not_tell_what_is_committed_ends_the_thread(bus):
    member = forgetful(bus, REFUSED)
    member.thread.start()
    wait_for(lambda: bool(member.died))
    assert member.died == [REFUSED]
    assert member.thread.stop(5)


def test_stopping_commits_leaves_and_says_so_once(bus, member):
    send(bus)
    member.start()
    [first] = member.come(1)
    member.begin(first)()
    assert member.thread.stop(5)
    assert member.committed == {first.partition: 1}
    assert member.died == [None]
    assert not bus.group("group").knows(member.consumer.member_id)
    assert member.ledger.partitions == ()


def test_stopping_gives_up_on_a_thread_that_hangs(bus, member):
    free = threading.Event()
    member.start()
    member.thread._hand_over = lambda _: free.wait(20)
    send(bus)
    assert not member.thread.stop(0.01)
    free.set()
    assert member.thread.stop(5)


def test_a_partition_that_was_never_read_is_not_committed(bus, member):
    member.start()
    member.polls_once_more()
    assert member.thread.stop(5)
    assert member.committed == {}
    assert partition() not in member.ledger.partitions

"""A bus inside this process, for tests of the policy: rebalances and failures come when a test says so.

It is honest where the service could trip: partitions, groups and cooperative rebalances, commits that are refused,
transactions that are invisible until they are committed. It keeps everything and loses nothing.
"""

import math
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pipeline.bus.base import (
    Acknowledged,
    Membership,
    Offsets,
    Outgoing,
    Partition,
    Position,
    Rebalancing,
    Record,
)
from pipeline.bus.ends import PartitionEnds
from pipeline.bus.errors import BusError, Fenced, StaleMember
from pipeline.bus.memory_group import MemoryGroup
from pipeline.bus.topics import MAX_MESSAGE_BYTES

Step = Literal["poll", "commit", "send", "acknowledge", "transaction", "look"]
MAX_POLL_RECORDS = 100


class MemoryBus:
    """Topics with their partitions, kept in lists. Thread-safe."""

    def __init__(self, partitions: Mapping[str, int], *, wall: Callable[[], float] = time.time) -> None:
        """Take how many partitions each topic has; ``wall`` stamps the records, in seconds since 1970."""
        self._logs: dict[Partition, list[Record]] = {
            Partition(topic, number): [] for topic, count in partitions.items() for number in range(count)
        }
        self._wall = wall
        self._groups: dict[str, MemoryGroup] = {}
        self._failures: dict[Step, list[Exception]] = defaultdict(list)
        self._producers: dict[str, int] = {}
        self.changed = threading.Condition(threading.RLock())

    def consumer(self, *, group_id: str, client_id: str, from_end: bool = False) -> "MemoryConsumer":
        """Return a new member of a group, which has not joined yet."""
        del client_id
        return MemoryConsumer(self, self.group(group_id), from_end=from_end)

    def reader(self, *, client_id: str = "") -> "MemoryReader":
        """Return a new reader."""
        del client_id
        return MemoryReader(self)

    def producer(self, *, client_id: str = "") -> "MemoryProducer":
        """Return a new producer."""
        del client_id
        return MemoryProducer(self)

    def transactional_producer(self, *, transactional_id: str) -> "MemoryTransactionalProducer":
        """Return a new producer; an older one with the same id is fenced."""
        with self.changed:
            self._producers[transactional_id] = self._producers.get(transactional_id, 0) + 1
            return MemoryTransactionalProducer(self, transactional_id, epoch=self._producers[transactional_id])

    def group(self, group_id: str) -> MemoryGroup:
        """Return a group, new or not."""
        with self.changed:
            return self._groups.setdefault(group_id, MemoryGroup(group_id))

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All there are."""
        return tuple(self._logs)

    def records(self, topic: str) -> list[Record]:
        """Return all of ``topic``, partition by partition: for tests to look at."""
        with self.changed:
            return [record for partition, log in self._logs.items() if partition.topic == topic for record in log]

    def fail_next(self, step: Step, error: Exception, *, times: int = 1) -> None:
        """Let the next ``times`` calls of ``step`` raise ``error``; an acknowledgement is told it instead."""
        with self.changed:
            self._failures[step] += [error] * times

    def failure(self, step: Step) -> Exception | None:
        """Take the next failure that a test has ordered for ``step``."""
        with self.changed:
            return self._failures[step].pop(0) if self._failures[step] else None

    def fail_if_told(self, step: Step) -> None:
        """Raise what a test has ordered for ``step``."""
        if (error := self.failure(step)) is not None:
            raise error

    def evict(self, consumer: "MemoryConsumer") -> None:
        """Throw a member out, as after a session timeout: it hears of it in its next poll, and joins again."""
        with self.changed:
            consumer.group.leave(consumer.member_id, self.partitions)
            self.changed.notify_all()

    def rebalance(self, shares: Mapping["MemoryConsumer", Iterable[Partition]]) -> None:
        """Share the partitions of one group out as told; the others get none."""
        with self.changed:
            group = next(iter(shares)).group
            group.assign({consumer.member_id: set(share) for consumer, share in shares.items()})
            self.changed.notify_all()

    def append(self, messages: Iterable[Outgoing]) -> None:
        """Store messages and wake those who wait."""
        with self.changed:
            for message in messages:
                partition = self._place(message)
                log = self._logs[partition]
                log.append(
                    Record(
                        partition=partition,
                        offset=len(log),
                        key=message.key,
                        value=message.value,
                        headers=message.headers,
                        timestamp_ms=int(self._wall() * 1000),
                    )
                )
            self.changed.notify_all()

    def check(self, message: Outgoing) -> None:
        """Raise ``BusError`` for a message that cannot be stored."""
        if Partition(message.topic, 0) not in self._logs:
            raise BusError(f"there is no topic {message.topic}", retryable=True)
        if len(message.value or b"") + len(message.key or b"") > MAX_MESSAGE_BYTES:
            raise BusError("the message is larger than the broker takes", retryable=False)

    def fenced(self, transactional_id: str, epoch: int) -> bool:
        """Whether a newer producer has the id."""
        with self.changed:
            return self._producers[transactional_id] != epoch

    def end(self, partition: Partition) -> int:
        """Return the offset that the next record will get."""
        return len(self._logs[partition])

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        """Return the records from ``start`` on."""
        return self._logs[partition][start : start + limit]

    def _place(self, message: Outgoing) -> Partition:
        count = sum(partition.topic == message.topic for partition in self._logs)
        number = zlib.crc32(message.key) % count if message.key is not None else 0
        return Partition(message.topic, number)


class MemoryConsumer:
    """``Consumer`` of a ``MemoryBus``."""

    def __init__(self, bus: MemoryBus, group: MemoryGroup, *, from_end: bool) -> None:
        self.group = group
        self.member_id = ""
        self._from_end = from_end
        self._bus = bus
        self._topics: tuple[str, ...] = ()
        self._rebalancing: Rebalancing | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._ends = PartitionEnds()
        self._woken = False
        self._closed = False
        self.confirmed_s = -math.inf

    def subscribe(self, topics: Sequence[str], rebalancing: Rebalancing) -> None:
        """Join the group."""
        self._topics, self._rebalancing = tuple(topics), rebalancing
        self._join()

    def _join(self) -> None:
        with self._bus.changed:
            self.member_id = self.group.join(self._topics, self._bus.partitions)
            self._bus.changed.notify_all()

    def poll(self, timeout_s: float) -> Sequence[Record]:
        """Return what has come."""
        self._bus.fail_if_told("poll")
        if self._closed:
            raise BusError("the consumer is closed", retryable=False)
        ends_s = time.monotonic() + timeout_s
        while True:
            self._hear_of_rebalances()
            self.confirmed_s = time.monotonic()
            with self._bus.changed:
                records = self._read()
                left_s = ends_s - time.monotonic()
                if records or self._woken or left_s <= 0:
                    self._woken = False
                    return records
                self._bus.changed.wait(left_s)

    def _read(self) -> list[Record]:
        records: list[Record] = []
        for partition in self._positions.keys() - self._paused:
            found = self._bus.read(partition, self._positions[partition], MAX_POLL_RECORDS - len(records))
            self._positions[partition] += len(found)
            records += [replace(r, came_after_s=self._ends.came_after_s(partition, r.offset)) for r in found]
            self._ends.note(partition, self._bus.end(partition), seen_s=time.monotonic())
        return records

    def _hear_of_rebalances(self) -> None:
        if self._rebalancing is None:
            return
        if not self.group.knows(self.member_id):
            self._forget(self._rebalancing.lost, sorted(self._positions))
            self._join()
        with self._bus.changed:
            revoked = self.group.let_go(self.member_id)
        self._forget(self._rebalancing.revoked, revoked)
        with self._bus.changed:
            self.group.gone(self.member_id, revoked)
            added = self.group.take(self.member_id)
            self._positions |= {partition: self._start(partition) for partition in added}
            self._bus.changed.notify_all()
        if added:
            self._rebalancing.assigned(added)

    def _start(self, partition: Partition) -> int:
        first = self._bus.end(partition) if self._from_end else 0
        return self.group.committed.get(partition, Position(first)).offset

    def _forget(self, tell: Callable[[Sequence[Partition]], None], partitions: Sequence[Partition]) -> None:
        if partitions:
            for partition in partitions:
                self._positions.pop(partition, None)
                self._paused.discard(partition)
            tell(partitions)

    def pause(self, partitions: Sequence[Partition]) -> None:
        """Let nothing of ``partitions`` come."""
        self._paused |= self._positions.keys() & set(partitions)

    def resume(self, partitions: Sequence[Partition]) -> None:
        """Let records come again."""
        self._paused -= set(partitions)

    def commit(self, offsets: Offsets) -> None:
        """Store what has been answered."""
        self._bus.fail_if_told("commit")
        with self._bus.changed:
            if not self.group.knows(self.member_id):
                raise StaleMember(f"{self.member_id} is not a member of the group any more")
            self.group.committed.update(offsets)

    def committed(self, partitions: Sequence[Partition]) -> Offsets:
        """Return what the group has committed."""
        with self._bus.changed:
            return {
                partition: self.group.committed[partition]
                for partition in partitions
                if partition in self.group.committed
            }

    def membership(self) -> Membership:
        """Return who this member is just now."""
        with self._bus.changed:
            return self.group.membership(self.member_id)

    def lag(self) -> Mapping[Partition, int]:
        """Return how many records have not come yet."""
        with self._bus.changed:
            return {partition: self._bus.end(partition) - position for partition, position in self._positions.items()}

    def wake(self) -> None:
        """Make a ``poll`` return."""
        with self._bus.changed:
            self._woken = True
            self._bus.changed.notify_all()

    def close(self) -> None:
        """Revoke all partitions and leave the group."""
        if self._closed:
            return
        self._closed = True
        if self._rebalancing is not None:
            self._forget(self._rebalancing.revoked, sorted(self._positions))
            self._bus.evict(self)


class MemoryReader:
    """``Reader`` of a ``MemoryBus``."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return those of ``topic``."""
        return [partition for partition in self._bus.partitions if partition.topic == topic]

    def bounds(self, partitions: Sequence[Partition]) -> Mapping[Partition, range]:
        """Return all offsets."""
        self._bus.fail_if_told("look")
        return {partition: range(self._bus.end(partition)) for partition in partitions}

    def offsets_at(self, partitions: Sequence[Partition], *, timestamp_ms: int) -> Mapping[Partition, int]:
        """Return the first offset from ``timestamp_ms`` on."""
        found: dict[Partition, int] = {}
        for partition in partitions:
            for record in self._bus.read(partition, 0, self._bus.end(partition)):
                if record.timestamp_ms >= timestamp_ms:
                    found.setdefault(partition, record.offset)
        return found

    def read(self, spans: Mapping[Partition, range], *, within_s: float) -> Iterator[Record]:
        """Yield the records of ``spans``."""
        del within_s
        for partition, span in spans.items():
            self._bus.fail_if_told("look")
            yield from self._bus.read(partition, span.start, len(span))

    def close(self) -> None:
        """Do nothing: nothing is open."""


class MemoryProducer:
    """``Producer`` of a ``MemoryBus``. Messages are stored, and acknowledged, at once."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._closed = False

    def send(self, message: Outgoing, acknowledged: Acknowledged | None = None) -> None:
        """Store ``message``."""
        self._check(message)
        error = self._bus.failure("acknowledge")
        if error is None:
            self._bus.append([message])
        if acknowledged is not None:
            acknowledged(error)

    def prepare(self, topics: Sequence[str]) -> Mapping[str, BusError]:
        """Return errors for the topics that there are not."""
        known = {partition.topic for partition in self._bus.partitions}
        return {t: BusError(f"there is no topic {t}", retryable=True) for t in topics if t not in known}

    def _check(self, message: Outgoing) -> None:
        if self._closed:
            raise BusError("the producer is closed", retryable=False)
        self._bus.fail_if_told("send")
        self._bus.check(message)

    def flush(self, timeout_s: float) -> bool:
        """Return at once: nothing waits."""
        del timeout_s
        return True

    def close(self) -> None:
        """End."""
        self._closed = True


class MemoryTransactionalProducer(MemoryProducer):
    """``TransactionalProducer`` of a ``MemoryBus``."""

    def __init__(self, bus: MemoryBus, transactional_id: str, *, epoch: int) -> None:
        super().__init__(bus)
        self._id = transactional_id
        self._epoch = epoch
        self._open: list[tuple[Outgoing, Acknowledged | None]] | None = None

    def send(self, message: Outgoing, acknowledged: Acknowledged | None = None) -> None:
        """Keep ``message`` until the transaction is committed."""
        self._check(message)
        if self._open is None:
            raise BusError("there is no transaction", retryable=False)
        self._open.append((message, acknowledged))

    def begin(self) -> None:
        """Begin a transaction."""
        self._stop_if_fenced()
        if self._open is not None:
            raise BusError("there is a transaction already", retryable=False)
        self._open = []

    def commit(self, offsets: Offsets, *, member: Membership, timeout_s: float) -> None:
        """Make it visible, ``offsets`` committed with it."""
        del timeout_s
        self._bus.fail_if_told("transaction")
        with self._bus.changed:
            self._stop_if_fenced()
            group = self._bus.group(member.group_id)
            if offsets:
                group.check(member)
            sent, self._open = self._open or [], None
            self._bus.append(message for message, _ in sent)
            group.committed.update(offsets)
        for _, acknowledged in sent:
            if acknowledged is not None:
                acknowledged(None)

    def abort(self) -> None:
        """Undo it."""
        self._stop_if_fenced()
        dropped, self._open = self._open or [], None
        for _, acknowledged in dropped:
            if acknowledged is not None:
                acknowledged(BusError("the transaction was undone", retryable=True))

    def _stop_if_fenced(self) -> None:
        if self._bus.fenced(self._id, self._epoch):
            raise Fenced(f"another producer has taken over {self._id}")

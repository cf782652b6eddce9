"""A member of a consumer group, through kafka-python."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import kafka
from kafka import errors
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.future import Future
from kafka.structs import MemberState, OffsetAndMetadata, TopicPartition

from pipeline.bus.base import Membership, Offsets, Partition, Position, Rebalancing, Record
from pipeline.bus.ends import PartitionEnds
from pipeline.bus.kafka_connection import KafkaConnection, bus_errors
from pipeline.bus.kafka_ends import note_ends
from pipeline.bus.kafka_sharing import TopicwiseAssignor
from pipeline.bus.topics import MAX_MESSAGE_BYTES

log = logging.getLogger(__name__)

SESSION_TIMEOUT_MS = 6_000
"""A member that was killed is missed after so long; the least a broker takes by default."""

HEARTBEAT_MS = 500
"""How soon a member learns that it must rejoin: the pause of a rebalance, for everyone in it, is about this long."""

REBALANCE_TIMEOUT_MS = 30_000
"""Members have so long to let go of their partitions before the group goes on without them."""

FETCH_WAIT_MS = 100
"""The broker holds an empty fetch so long. A partition that is resumed or new waits for the fetch under way."""

SLICE_S = 0.1
"""A poll looks up so often to see whether it was woken: kafka-python has no wake-up of its own."""

REBALANCE_SLICE_S = 0.5
"""A rebalance that ends between two polls is thrown away and begun again: rarely, when polls are long meanwhile."""

MAX_POLL_RECORDS = 100
CALL_TIMEOUT_MS = 5_000
"""Commits are given up after so long."""

LOOK_UP_TIMEOUT_MS = 2_000
"""Nothing is polled meanwhile."""


class KafkaConsumer:
    """``Consumer`` over Apache Kafka.

    Partitions are shared out topic by topic, by a cooperative strategy (``sharing.py``): who keeps a partition keeps it
    through a rebalance, with its jobs under way. The eager ones would take all partitions from everyone each time.
    Only committed transactions are read.
    """

    def __init__(self, connection: KafkaConnection, *, group_id: str, client_id: str, from_end: bool = False) -> None:
        """Wait for the broker. Raises ``BusError``."""
        self._connection = connection
        self._group_id = group_id
        self._woken = threading.Event()
        self._damage: tuple[Partition, int] | None = None
        self._beside: ThreadPoolExecutor | None = None
        self._ends = PartitionEnds()
        self.confirmed_s = -math.inf
        """When the heartbeat or the joining was begun that the group has answered last."""
        with bus_errors("could not connect to Kafka", connection):
            self._kafka = kafka.KafkaConsumer(
                **connection.options(),
                group_id=group_id,
                client_id=client_id,
                partition_assignment_strategy=[TopicwiseAssignor],
                enable_auto_commit=False,
                auto_offset_reset="latest" if from_end else "earliest",
                isolation_level="read_committed",
                allow_auto_create_topics=False,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
                max_poll_records=MAX_POLL_RECORDS,
                metrics_enabled=False,  # ours are elsewhere; these would cost CPU a record
            )
        note_ends(self._kafka._fetcher, self._ends)  # noqa: SLF001  (there is no public way)

    def subscribe(self, topics: Sequence[str], rebalancing: Rebalancing) -> None:
        """Join the group: from now on ``poll`` back to back, or a rebalance may never end."""
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="rebalance")
        # kafka-python has no public way to its loop, which alone may go on after a rebalance.
        listener = _Listener(rebalancing, aside=partial(_aside, self._beside, self._kafka._net))  # noqa: SLF001
        self._kafka.subscribe(list(topics), listener=listener)

    def poll(self, timeout_s: float) -> Sequence[Record]:
        """Return what has come. A rebalance may stretch it by ``REBALANCE_SLICE_S``.

        With the broker away nothing comes; ``lag`` tells whether it is there.
        """
        ends_s = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, ends_s - time.monotonic())
            with bus_errors("could not read from Kafka", self._connection):
                asked_s, before = time.monotonic(), self._state
                records = self._poll_once(self._slice_s(left_s))
            self._note_confirmation(asked_s, before)
            if records or left_s == 0 or self._woken.is_set():
                self._woken.clear()
                return records

    def _poll_once(self, timeout_s: float) -> list[Record]:
        try:
            batches = self._kafka.poll(timeout_ms=1000 * timeout_s)
        except errors.CorruptRecordError as error:
            return self._past_damage(error)
        return [self._dated(raw) for batch in batches.values() for raw in batch]

    def _dated(self, raw: Any) -> Record:
        partition = Partition(raw.topic, raw.partition)
        return record_of(raw, came_after_s=self._ends.came_after_s(partition, raw.offset))

    def _past_damage(self, error: errors.CorruptRecordError) -> list[Record]:
        """Step over a record that kafka-python cannot read, such as one with a header whose name is no UTF-8.

        Left alone, it would try that record for ever without returning. What follows in the same batch cannot be read
        either: it fails in its turn. The first time the record is fetched again, in case it was damaged on its way.
        """
        failed = self._kafka._fetcher._next_partition_records  # noqa: SLF001  (the error does not say which one)
        if failed is None:
            raise error
        partition = Partition(failed.topic_partition.topic, failed.topic_partition.partition)
        offset = max(failed.fetch_offset, failed.next_fetch_offset)  # a batch is read from its start
        place = partition, offset
        known, self._damage = place == self._damage, place
        failed.drain()  # or it would be read on from where it broke, which is for ever
        self._kafka.seek(failed.topic_partition, offset + 1 if known else offset)
        if not known:
            return []
        log.error("%s-%d: the record at offset %d cannot be read: %s", *partition, offset, error)
        self._damage = partition, offset + 1
        return [Record(partition, offset, key=None, value=None, headers=(), timestamp_ms=-1, damaged=True)]

    @property
    def _state(self) -> str:
        """One of kafka-python's ``MemberState``."""
        return str(self._kafka.group_metadata().state)

    def _note_confirmation(self, asked_s: float, before: str) -> None:
        """Take note of what a poll has brought that was begun at ``asked_s``, in the state ``before``."""
        heartbeat = self._kafka._coordinator.heartbeat  # noqa: SLF001  (nowhere else is it told)
        taken_in = before != MemberState.STABLE and self._state == MemberState.STABLE
        waited_for = before == MemberState.REBALANCING and math.isfinite(self.confirmed_s)
        if taken_in or waited_for:  # the group waits for those who are joining anew: they send no heartbeats
            self.confirmed_s = max(self.confirmed_s, asked_s)
        elif heartbeat.last_receive >= heartbeat.last_send:
            self.confirmed_s = max(self.confirmed_s, heartbeat.last_send)

    def _slice_s(self, left_s: float) -> float:
        if self._state != MemberState.REBALANCING:
            return min(SLICE_S, left_s)
        # kafka-python forgets a rebalance that new metadata began when a poll ends in its middle: it would then wait
        # for ever, at full load. Asked to rejoin, it takes up the one under way.
        self._kafka._coordinator.request_rejoin()  # noqa: SLF001  (there is no public way)
        return REBALANCE_SLICE_S

    def pause(self, partitions: Sequence[Partition]) -> None:
        """Let nothing of ``partitions`` come. Those that are not assigned are passed over."""
        self._kafka.pause(*self._assigned(partitions))

    def resume(self, partitions: Sequence[Partition]) -> None:
        """Let records come again. Those that are not assigned are passed over."""
        assigned = self._assigned(partitions)
        # kafka-python sets records aside that a pause finds half handed over, and brings them back only when nothing
        # else is in line: perhaps never. Without them it fetches them again, from where it stopped.
        aside = self._kafka._fetcher._paused_partition_records  # noqa: SLF001  (there is no public way)
        for partition in assigned:
            aside.pop(partition, None)
        self._kafka.resume(*assigned)

    def _assigned(self, partitions: Iterable[Partition]) -> list[Any]:
        assignment = self._kafka.assignment()
        return [TopicPartition(*partition) for partition in partitions if TopicPartition(*partition) in assignment]

    def commit(self, offsets: Offsets) -> None:
        """Store what has been answered."""
        with bus_errors("could not commit offsets", self._connection):
            self._kafka.commit(kafka_offsets(offsets), timeout_ms=CALL_TIMEOUT_MS)

    def committed(self, partitions: Sequence[Partition]) -> Offsets:
        """Return what the group has committed."""
        found: dict[Partition, Position] = {}
        with bus_errors("could not read the committed offsets", self._connection):
            for partition in partitions:
                stored = self._kafka.committed(TopicPartition(*partition), metadata=True, timeout_ms=CALL_TIMEOUT_MS)
                if stored is not None and stored.offset >= 0:
                    found[partition] = Position(stored.offset, stored.metadata or "")
        return found

    def membership(self) -> Membership:
        """Return who this member is just now."""
        metadata = self._kafka.group_metadata()
        return Membership(self._group_id, metadata.generation_id, metadata.member_id)

    def lag(self) -> Mapping[Partition, int]:
        """Return how many records have not come yet, by the broker's word."""
        partitions = list(self._kafka.assignment())
        with bus_errors("could not read the lag", self._connection):
            ends = self._kafka.end_offsets(partitions, timeout_ms=LOOK_UP_TIMEOUT_MS) if partitions else {}
            reached = {partition: self._kafka.position(partition, timeout_ms=LOOK_UP_TIMEOUT_MS) for partition in ends}
        return {
            Partition(partition.topic, partition.partition): max(0, ends[partition] - position)
            for partition, position in reached.items()
            if position is not None
        }

    def wake(self) -> None:
        """Make a ``poll`` return within ``SLICE_S``."""
        self._woken.set()

    def close(self) -> None:
        """Revoke all partitions, leave the group and disconnect."""
        with bus_errors("could not leave the group", self._connection):
            self._kafka.close(autocommit=False, timeout_ms=CALL_TIMEOUT_MS)
        if self._beside is not None:
            self._beside.shutdown()


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # the base is untyped
    """Hands kafka-python's calls on, without blocking its loop, which heartbeats and commits need meanwhile."""

    def __init__(self, rebalancing: Rebalancing, *, aside: Callable[[Callable[[], None]], Future]) -> None:
        self._rebalancing = rebalancing
        self._aside = aside

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        await self._tell(self._rebalancing.assigned, assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        await self._tell(self._rebalancing.revoked, revoked)

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        await self._tell(self._rebalancing.lost, lost)

    async def _tell(self, hear: Callable[[Sequence[Partition]], None], partitions: Iterable[Any]) -> None:
        named = sorted(Partition(partition.topic, partition.partition) for partition in partitions)
        if named:  # an empty one comes before the first assignment
            await self._aside(partial(hear, named))


def _aside(threads: ThreadPoolExecutor, loop: Any, call: Callable[[], None]) -> Future:
    """Run ``call`` on another thread; return what the loop may await meanwhile."""
    done = Future()

    def run() -> None:
        error: Exception | None = None
        try:
            call()
        except Exception as raised:  # noqa: BLE001  (handed on, whatever it is)
            error = raised

        def tell() -> None:
            if error is None:
                done.success(None)
            else:
                done.failure(error)

        loop.call_soon_threadsafe(tell)

    threads.submit(run)
    return done


def kafka_offsets(offsets: Offsets) -> dict[Any, Any]:
    """Return ``offsets`` in kafka-python's types."""
    return {
        TopicPartition(*partition): OffsetAndMetadata(position.offset, position.metadata, -1)
        for partition, position in offsets.items()
    }


def record_of(raw: Any, *, came_after_s: float | None = None) -> Record:
    """Return kafka-python's record as ours."""
    return Record(
        partition=Partition(raw.topic, raw.partition),
        offset=raw.offset,
        key=raw.key,
        value=raw.value,
        headers=tuple((name, value or b"") for name, value in raw.headers or ()),
        timestamp_ms=raw.timestamp,
        came_after_s=came_after_s,
    )

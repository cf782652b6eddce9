"""Producers through kafka-python: a plain one, and one with transactions."""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import kafka
from kafka import errors
from kafka.structs import ConsumerGroupMetadata

from pipeline.bus.base import Acknowledged, Membership, Offsets, Outgoing
from pipeline.bus.errors import BusError
from pipeline.bus.kafka_connection import KafkaConnection, bus_error, bus_errors
from pipeline.bus.kafka_consumer import kafka_offsets
from pipeline.bus.topics import MAX_MESSAGE_BYTES

QUEUE_BYTES = 64 * MAX_MESSAGE_BYTES
"""So much may wait for a broker that is away; kafka-python itself has no limit."""

METADATA_TIMEOUT_MS = 5_000
DELIVERY_TIMEOUT_MS = 30_000
"""A message that is not stored by then is given up, and its ``acknowledged`` told."""

CLOSE_TIMEOUT_S = 5.0

WAIT_SLICE_S = 0.25

TRANSACTION_TIMEOUT_MS = 10_000
"""The broker undoes what a killed worker left open after so long (and up to 10 s more: it looks so often)."""


class KafkaProducer:
    """``Producer`` over Apache Kafka: stored by all in-sync replicas, and once, however often it was sent again."""

    def __init__(self, connection: KafkaConnection, *, client_id: str, **options: Any) -> None:
        """Wait for the broker. Raises ``BusError``."""
        self._connection = connection
        self._queue = _QueueBytes(QUEUE_BYTES)
        with bus_errors("could not connect to Kafka", connection):
            self._kafka = kafka.KafkaProducer(
                **connection.options(),
                client_id=client_id,
                acks="all",
                enable_idempotence=True,
                allow_auto_create_topics=False,
                max_request_size=MAX_MESSAGE_BYTES,
                max_block_ms=METADATA_TIMEOUT_MS,
                request_timeout_ms=10_000,
                delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
                metrics_enabled=False,
                **options,
            )

    def prepare(self, topics: Sequence[str]) -> Mapping[str, BusError]:
        """Find out where messages go. Takes ``METADATA_TIMEOUT_MS`` when the broker knows nothing of one of them."""
        with ThreadPoolExecutor(len(topics) or 1, thread_name_prefix="prepare") as threads:
            found = dict(zip(topics, threads.map(self._trouble, topics), strict=True))
        return {topic: error for topic, error in found.items() if error is not None}

    def _trouble(self, topic: str) -> BusError | None:
        """Return why nothing can be sent to ``topic``."""
        doing = f"could not prepare sending to {topic}"
        try:
            with bus_errors(doing, self._connection):
                self._kafka.partitions_for(topic)
        except BusError as error:
            if isinstance(error.__cause__, errors.KafkaTimeoutError):
                where = self._connection.bootstrap
                return BusError(f"{doing} ({where}): there is no such topic, or no broker to ask", retryable=True)
            return error
        return None

    def send(self, message: Outgoing, acknowledged: Acknowledged | None = None) -> None:
        """Queue ``message``. Waits for the broker the first time that a topic is used and was not prepared."""
        size_bytes = len(message.value or b"") + len(message.key or b"")
        if size_bytes > MAX_MESSAGE_BYTES:  # the queue may have no room for it, ever
            raise BusError(f"could not send to {message.topic}: it is larger than the broker takes", retryable=False)
        if not self._queue.take(size_bytes):
            raise BusError(f"could not send to {message.topic}: too much is waiting for the broker", retryable=True)
        try:
            with bus_errors(f"could not send to {message.topic}", self._connection):
                future = self._kafka.send(
                    message.topic, value=message.value, key=message.key, headers=list(message.headers)
                )
        except BaseException:
            self._queue.give_back(size_bytes)
            raise
        settled = partial(self._settled, message.topic, size_bytes, acknowledged)
        future.add_callback(partial(settled, None))
        future.add_errback(settled)

    def _settled(
        self, topic: str, size_bytes: int, acknowledged: Acknowledged | None, error: Exception | None, *_metadata: Any
    ) -> None:
        self._queue.give_back(size_bytes)
        if acknowledged is None:
            return
        doing = f"could not store a message in {topic}"
        acknowledged(None if error is None else bus_error(error, doing=doing, connection=self._connection))

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was queued is stored or given up."""
        try:
            with bus_errors("could not flush", self._connection):
                self._kafka.flush(timeout=timeout_s)
        except BusError as error:
            if isinstance(error.__cause__, errors.KafkaTimeoutError):
                return False
            raise
        return True

    def close(self) -> None:
        """Flush and end."""
        self._kafka.close(timeout=CLOSE_TIMEOUT_S)


class KafkaTransactionalProducer(KafkaProducer):
    """``TransactionalProducer`` over Apache Kafka."""

    def __init__(self, connection: KafkaConnection, *, transactional_id: str) -> None:
        """Wait for the broker, fence older producers with this id. Raises ``BusError``."""
        super().__init__(
            connection,
            client_id=transactional_id,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self._bounded("could not begin with transactions", self._kafka.init_transactions, METADATA_TIMEOUT_MS / 1000)

    def begin(self) -> None:
        """Begin a transaction."""
        with bus_errors("could not begin a transaction", self._connection):
            self._kafka.begin_transaction()

    def commit(self, offsets: Offsets, *, member: Membership, timeout_s: float) -> None:
        """Make it visible, ``offsets`` committed with it."""
        group = ConsumerGroupMetadata(member.group_id, member.generation, member.member_id)

        def commit() -> None:
            if offsets:
                self._kafka.send_offsets_to_transaction(kafka_offsets(offsets), group)
            self._kafka.commit_transaction()

        self._bounded("could not commit the transaction", commit, timeout_s)

    def abort(self) -> None:
        """Undo it."""
        self._bounded("could not abort the transaction", self._kafka.abort_transaction, METADATA_TIMEOUT_MS / 1000)

    def _bounded(self, doing: str, call: Callable[[], None], timeout_s: float) -> None:
        """Run ``call``, which kafka-python would let wait for ever. Raises a retryable ``BusError`` when it is late."""
        raised: list[Exception] = []

        def run() -> None:
            try:
                call()
            except Exception as error:  # noqa: BLE001  (raised where it is waited for)
                raised.append(error)

        thread = threading.Thread(target=run, name="transaction", daemon=True)
        thread.start()
        for _ in range(math.ceil(timeout_s / WAIT_SLICE_S)):  # a process that was frozen meanwhile has not waited
            thread.join(WAIT_SLICE_S)
            if not thread.is_alive():
                break
        if thread.is_alive():
            raise BusError(f"{doing} ({self._connection.bootstrap}): no answer in {timeout_s:.0f} s", retryable=True)
        with bus_errors(doing, self._connection):
            if raised:
                raise raised[0]


class _QueueBytes:
    """Counts what waits, from any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> bool:
        with self._lock:
            if self._taken + size_bytes > self._limit:
                return False
            self._taken += size_bytes
            return True

    def give_back(self, size_bytes: int) -> None:
        with self._lock:
            self._taken -= size_bytes

"""Looks into topics through kafka-python, as nobody's member."""

import time
from collections.abc import Iterator, Mapping, Sequence

import kafka
from kafka.structs import TopicPartition

from pipeline.bus.base import Partition, Record
from pipeline.bus.errors import BusError
from pipeline.bus.kafka_connection import KafkaConnection, bus_errors
from pipeline.bus.kafka_consumer import record_of
from pipeline.bus.topics import MAX_MESSAGE_BYTES

CALL_TIMEOUT_MS = 1_000
SLICE_MS = 50
MAX_POLL_RECORDS = 1_000


class KafkaReader:
    """``Reader`` over Apache Kafka. Only committed transactions are read."""

    def __init__(self, connection: KafkaConnection, *, client_id: str) -> None:
        """Wait for the broker. Raises ``BusError``."""
        self._connection = connection
        with bus_errors("could not connect to Kafka", connection):
            self._kafka = kafka.KafkaConsumer(
                **connection.options(),
                group_id=None,
                client_id=client_id,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                allow_auto_create_topics=False,
                fetch_max_wait_ms=SLICE_MS,
                max_partition_fetch_bytes=MAX_MESSAGE_BYTES,
                max_poll_records=MAX_POLL_RECORDS,
                metrics_enabled=False,
            )

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return those of ``topic``."""
        with bus_errors(f"could not look at {topic}", self._connection):
            numbers = self._kafka.partitions_for_topic(topic)
        return [Partition(topic, number) for number in sorted(numbers or ())]

    def bounds(self, partitions: Sequence[Partition]) -> Mapping[Partition, range]:
        """Return the offsets that there are."""
        found: dict[Partition, range] = {}
        for topic in sorted({partition.topic for partition in partitions}):
            found |= self._bounds([partition for partition in partitions if partition.topic == topic])
        return found

    def _bounds(self, partitions: Sequence[Partition]) -> dict[Partition, range]:
        """Return the bounds of one topic's partitions: kafka-python forgets about the others if it knows some only."""
        asked = [TopicPartition(*partition) for partition in partitions]
        with bus_errors("could not look where partitions end", self._connection):
            try:
                first = self._kafka.beginning_offsets(asked, timeout_ms=CALL_TIMEOUT_MS)
                ends = self._kafka.end_offsets(asked, timeout_ms=CALL_TIMEOUT_MS)
            except KeyError as error:
                raise BusError(f"nothing is known about {error}", retryable=True) from None
        return {p: range(first[TopicPartition(*p)], ends[TopicPartition(*p)]) for p in partitions}

    def offsets_at(self, partitions: Sequence[Partition], *, timestamp_ms: int) -> Mapping[Partition, int]:
        """Return the first offset from ``timestamp_ms`` on."""
        asked = {TopicPartition(*partition): timestamp_ms for partition in partitions}
        with bus_errors("could not look up offsets by time", self._connection):
            found = self._kafka.offsets_for_times(asked, timeout_ms=CALL_TIMEOUT_MS)
        return {Partition(p.topic, p.partition): at.offset for p, at in found.items() if at is not None}

    def read(self, spans: Mapping[Partition, range], *, within_s: float) -> Iterator[Record]:
        """Yield the records of ``spans``."""
        ends_s = time.monotonic() + within_s
        left = {TopicPartition(*partition): span for partition, span in spans.items() if span}
        self._go_to(left)
        while left:
            if time.monotonic() >= ends_s:
                raise BusError(f"could not read all of {len(spans)} partitions in {within_s:.1f} s", retryable=True)
            with bus_errors("could not read from Kafka", self._connection):
                batches = self._kafka.poll(timeout_ms=SLICE_MS)
            for place, batch in batches.items():
                yield from (record_of(raw) for raw in batch if place in left and raw.offset in left[place])
            left = {place: span for place, span in left.items() if self._position(place) < span.stop}

    def _go_to(self, spans: Mapping[TopicPartition, range]) -> None:
        with bus_errors("could not read from Kafka", self._connection):
            self._kafka.assign(list(spans))
            for place, span in spans.items():
                self._kafka.seek(place, span.start)

    def _position(self, place: TopicPartition) -> int:
        with bus_errors("could not read from Kafka", self._connection):
            return int(self._kafka.position(place, timeout_ms=CALL_TIMEOUT_MS) or 0)

    def close(self) -> None:
        """Disconnect."""
        with bus_errors("could not disconnect", self._connection):
            self._kafka.close(autocommit=False)

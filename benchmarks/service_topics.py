"""What lies on topics: how much while something runs, and all of it afterwards."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from uuid import uuid4

import kafka
from kafka.structs import TopicPartition

from benchmarks.service_stand import NotMeasured, Program
from pipeline.bus.base import Bus, Partition, Record

LOOK_EVERY_S = 0.02
READING_S = 120.0


class Counted:
    """How many records a topic holds, without reading them: the cheapest way to watch. A context manager."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._kafka = kafka.KafkaConsumer(bootstrap_servers=bootstrap, metrics_enabled=False)
        self._partitions = [TopicPartition(topic, number) for number in self._kafka.partitions_for_topic(topic) or ()]

    def now(self) -> int:
        """Return how many."""
        return sum(self._kafka.end_offsets(self._partitions).values())

    def wait(self, count: int, *, within_s: float, by: Program) -> int:
        """Return how many there are once there are ``count``.

        Raises ``NotMeasured`` when that takes longer, or when the program that should write them has ended.
        """
        ends_s = time.monotonic() + within_s
        while (now := self.now()) < count:
            if not by.running:
                raise NotMeasured(f"it has ended: {by.last_words()}")
            if time.monotonic() > ends_s:
                raise NotMeasured(f"{now} of {count} answers within {within_s:.0f} s: {by.last_words()}")
            time.sleep(LOOK_EVERY_S)
        return now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kafka.close(autocommit=False)


class Everything:
    """Implements ``Rebalancing``: the only member of its group takes all."""

    def __init__(self) -> None:
        self.come = False
        """Whether it has them."""

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Be told by the consumer."""
        self.come = bool(partitions)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Be told by the consumer."""

    lost = revoked


def read_all(bus: Bus, topics: Sequence[str]) -> list[Record]:
    """Return every record that lies on ``topics`` now, in order within each partition. Raises ``NotMeasured``."""
    consumer = bus.consumer(group_id=f"reader-{uuid4().hex}", client_id="benchmark")
    everything, records = Everything(), list[Record]()
    ends_s = time.monotonic() + READING_S
    try:
        consumer.subscribe(topics, everything)
        while not everything.come or any(consumer.lag().values()):
            if time.monotonic() > ends_s:
                raise NotMeasured(f"{', '.join(topics)} could not be read within {READING_S:.0f} s")
            records += consumer.poll(0.2)
    finally:
        consumer.close()
    return records

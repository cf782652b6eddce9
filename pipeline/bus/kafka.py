"""Apache Kafka as a ``Bus``. The only door to kafka-python, which is imported with this module."""

import contextlib
from collections.abc import Iterable

from kafka import errors
from kafka.admin import KafkaAdminClient

from pipeline.bus.kafka_connection import KafkaConnection, bus_errors
from pipeline.bus.kafka_consumer import KafkaConsumer
from pipeline.bus.kafka_producer import KafkaProducer, KafkaTransactionalProducer
from pipeline.bus.kafka_reader import KafkaReader
from pipeline.bus.topics import Topic

ADMIN_TIMEOUT_MS = 15_000


class KafkaBus:
    """A broker, or a cluster of them."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def consumer(self, *, group_id: str, client_id: str, from_end: bool = False) -> KafkaConsumer:
        """Return a new member of a group, which has not joined yet."""
        return KafkaConsumer(self._connection, group_id=group_id, client_id=client_id, from_end=from_end)

    def reader(self, *, client_id: str) -> KafkaReader:
        """Return a new reader."""
        return KafkaReader(self._connection, client_id=client_id)

    def producer(self, *, client_id: str) -> KafkaProducer:
        """Return a new producer."""
        return KafkaProducer(self._connection, client_id=client_id)

    def transactional_producer(self, *, transactional_id: str) -> KafkaTransactionalProducer:
        """Return a new producer; an older one with the same id is fenced and its open transaction aborted."""
        return KafkaTransactionalProducer(self._connection, transactional_id=transactional_id)

    def create(self, topics: Iterable[Topic]) -> tuple[str, ...]:
        """Create the topics that are missing and return their names. Those that exist are left as they are."""
        with bus_errors("could not create the topics", self._connection):
            admin = KafkaAdminClient(**self._connection.options())
            try:
                present = set(admin.list_topics())
                missing = {
                    topic.name: {"num_partitions": topic.partitions, "configs": dict(topic.config)}
                    for topic in topics
                    if topic.name not in present
                }
                if missing:
                    _create(admin, missing)
            finally:
                admin.close()
        return tuple(missing)


def _create(admin: KafkaAdminClient, missing: dict[str, dict[str, object]]) -> None:
    with contextlib.suppress(errors.TopicAlreadyExistsError):  # somebody else was quicker
        admin.create_topics(missing, timeout_ms=ADMIN_TIMEOUT_MS, wait_for_metadata=True)

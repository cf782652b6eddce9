"""Messages that are too large are refused where they are sent, with words that help."""

import pytest
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError

from pipeline.bus.base import Outgoing
from pipeline.bus.errors import BusError
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from tests.service_checker import Checker
from tests.service_jobs import job
from tests.service_worker import StartWorker

pytestmark = pytest.mark.kafka


def test_a_message_of_100_mb_is_refused_at_once(bootstrap: str, topics: Topics) -> None:
    producer = KafkaBus(KafkaConnection(bootstrap)).producer(client_id="a test")
    try:
        with pytest.raises(BusError, match="larger than the broker takes") as refused:
            producer.send(Outgoing(topics.realtime, b"key", bytes(100_000_000)))
    finally:
        producer.close()
    assert not refused.value.retryable


def test_a_producer_that_does_not_look_is_refused_by_the_broker(
    bootstrap: str, topics: Topics, checker: Checker, start_worker: StartWorker
) -> None:
    start_worker()
    careless = KafkaProducer(bootstrap_servers=bootstrap, max_request_size=4_000_000, metrics_enabled=False)
    try:
        with pytest.raises(MessageSizeTooLargeError):
            careless.send(topics.realtime, key=b"key", value=bytes(3_000_000)).get(timeout=20)
    finally:
        careless.close()
    checker.submit(job("after"))
    checker.verdict().require_clean()

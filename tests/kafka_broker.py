"""A real Kafka for tests: the one that KAFKA_BOOTSTRAP names, else one of our own on free ports."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from scripts.kafka.broker import KafkaBroker, temporary_broker
from scripts.kafka.errors import KafkaUnavailable
from scripts.kafka.jars import fetched
from scripts.kafka.java import java


@contextmanager
def shared_broker() -> Iterator[str]:
    """Yield the address of a broker that the test leaves alone. Skips, visibly, when none can be had."""
    if bootstrap := os.environ.get("KAFKA_BOOTSTRAP"):
        yield bootstrap
    else:
        with broker_of_our_own() as broker:
            yield broker.bootstrap


@contextmanager
def broker_of_our_own() -> Iterator[KafkaBroker]:
    """Yield a running broker that the test may stop, kill and start again. Skips, visibly, when none can be had."""
    with temporary_broker(jars()) as broker:
        yield broker


def jars() -> Path:
    """Where Kafka's jars lie. Skips, visibly, when they or Java cannot be had."""
    try:
        java()
        return fetched()
    except KafkaUnavailable as error:
        pytest.skip(str(error))


def fresh_topics(bootstrap: str) -> Topics:
    """Create topics behind a prefix that was never used."""
    topics = Topics(prefix=f"test-{uuid4().hex[:12]}.")
    KafkaBus(KafkaConnection(bootstrap)).create(topics.all())
    return topics

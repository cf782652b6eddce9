"""One broker for all tests of this folder, and topics of its own for each."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from scripts.kafka.broker import KafkaBroker
from tests.kafka_broker import broker_of_our_own, shared_broker


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """Address of a broker that all tests share: leave it alone."""
    with shared_broker() as bootstrap:
        yield bootstrap


@pytest.fixture
def own_broker() -> Iterator[KafkaBroker]:
    """A broker that this test may stop, kill and start again."""
    with broker_of_our_own() as broker:
        yield broker


@pytest.fixture
def topics(broker: str) -> Topics:
    """Topics that no other test uses, on the shared broker."""
    return fresh_topics(broker)


def fresh_topics(bootstrap: str) -> Topics:
    """Create topics behind a prefix that was never used."""
    topics = Topics(prefix=f"test-{uuid4().hex[:12]}.")
    KafkaBus(KafkaConnection(bootstrap)).create(topics.all())
    return topics

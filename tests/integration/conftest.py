"""A broker for all tests that need one, and topics of its own for each."""

from collections.abc import Iterator

import pytest

from pipeline.bus.topics import Topics
from scripts.kafka.broker import KafkaBroker
from tests.kafka_broker import broker_of_our_own, fresh_topics, shared_broker


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
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Address of the test's own broker if it asks for one, else of the shared one."""
    if "own_broker" in request.fixturenames:
        own: KafkaBroker = request.getfixturevalue("own_broker")
        return own.bootstrap
    shared: str = request.getfixturevalue("broker")
    return shared


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    """Topics that no other test uses."""
    return fresh_topics(bootstrap)

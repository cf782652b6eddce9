"""A broker for all tests of this folder; topics, a group, workers and a checker for each."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from scripts.kafka.broker import KafkaBroker
from tests.kafka_broker import broker_of_our_own, shared_broker
from tests.service_checker import Checker
from tests.service_worker import StartWorker, WorkerProcess


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """Address of a broker that all tests share: leave it alone."""
    with shared_broker() as bootstrap:
        yield bootstrap


@pytest.fixture
def own_broker() -> Iterator[KafkaBroker]:
    """A broker that this test may stop and start again."""
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
    topics = Topics(prefix=f"test-{uuid4().hex[:12]}.")
    KafkaBus(KafkaConnection(bootstrap)).create(topics.all())
    return topics


@pytest.fixture
def checker(bootstrap: str, topics: Topics) -> Iterator[Checker]:
    """Counts the jobs of this test, with hand-over."""
    checker = Checker(bootstrap, topics, group_id=f"{topics.prefix}workers")
    yield checker
    checker.close()


@pytest.fixture
def start_worker(bootstrap: str, topics: Topics, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts scripted workers; none outlives the test."""
    workers: list[WorkerProcess] = []

    def start(*more: str) -> WorkerProcess:
        log = tmp_path / f"worker-{len(workers)}.log"
        workers.append(WorkerProcess.scripted(bootstrap, topics, f"{topics.prefix}workers", *more, log=log))
        return workers[-1].wait_until_ready()

    yield start
    for worker in workers:
        worker.close()

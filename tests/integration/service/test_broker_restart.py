"""The broker goes away under load and comes back: the worker stays, and every accepted job is answered."""

import gc
import logging
import time
from collections.abc import Iterator

import pytest

from scripts.kafka.broker import KafkaBroker
from tests.service_checker import Checker
from tests.service_jobs import mixed_jobs
from tests.service_worker import StartWorker

pytestmark = [
    pytest.mark.kafka,
    # kafka-python leaves sockets that the broker has closed to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a test leaves to the garbage collector is not found in the next one."""
    caplog.set_level(logging.CRITICAL, logger="kafka")  # what is logged is kept, sockets with it
    yield
    gc.collect()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_comes_back_finds_its_workers_waiting(
    own_broker: KafkaBroker, checker: Checker, start_worker: StartWorker, how: str
) -> None:
    worker = start_worker()
    with checker.load(mixed_jobs(300), per_s=40):
        checker.wait_for_answers(20)
        getattr(own_broker, how)()
        time.sleep(2.0)
        own_broker.start()
    verdict = checker.verdict().require_clean()
    assert verdict.accepted == 300
    worker.terminate()
    assert worker.wait(within_s=15) == 0, worker.words

"""Workers and a checker for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.bus.topics import Topics
from tests.service_checker import Checker
from tests.service_worker import StartWorker, WorkerProcess


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

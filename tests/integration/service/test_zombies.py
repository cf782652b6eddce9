"""A worker that comes back from the dead, where others have taken over meanwhile, does no harm in either mode."""

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from pipeline.bus.kafka_consumer import SESSION_TIMEOUT_MS
from tests.service_checker import Checker
from tests.service_jobs import mixed_jobs
from tests.service_worker import WorkerProcess

if TYPE_CHECKING:
    from conftest import StartWorker

pytestmark = pytest.mark.kafka

MODES = pytest.mark.parametrize("mode", [(), ("--exactly-once",)], ids=["at-least-once", "exactly-once"])
BEYOND_SESSION_S = SESSION_TIMEOUT_MS / 1000 + 3


def freeze(worker: WorkerProcess) -> None:
    os.kill(worker.pid, signal.SIGSTOP)


def thaw(worker: WorkerProcess) -> None:
    os.kill(worker.pid, signal.SIGCONT)


@MODES
def test_a_worker_that_was_frozen_sends_nothing_that_others_have_answered(
    mode: tuple[str, ...], checker: Checker, start_worker: "StartWorker"
) -> None:
    zombie = start_worker(*mode)
    start_worker(*mode)
    with checker.load(mixed_jobs(800, "sleep 0.2", budget_ms=60_000), per_s=50):
        checker.wait_for_answers(40)
        freeze(zombie)
        time.sleep(BEYOND_SESSION_S)
        thaw(zombie)
        time.sleep(2)
    checker.verdict().require_clean()
    zombie.terminate()
    assert zombie.wait(within_s=20) == 0, zombie.words


@MODES
def test_a_worker_that_was_frozen_only_for_a_moment_goes_on(
    mode: tuple[str, ...], checker: Checker, start_worker: "StartWorker"
) -> None:
    worker = start_worker(*mode)
    with checker.load(mixed_jobs(200, "sleep 0.1", budget_ms=60_000), per_s=50):
        checker.wait_for_answers(20)
        freeze(worker)
        time.sleep(2)
        thaw(worker)
    checker.verdict().require_clean()


def test_of_two_workers_with_one_id_the_older_one_is_fenced_and_ends_with_an_error(
    checker: Checker, start_worker: "StartWorker"
) -> None:
    older = start_worker("--exactly-once", "--worker-id", "slot-1")
    with checker.load(mixed_jobs(1000, "sleep 0.05"), per_s=40):
        checker.wait_for_answers(20)
        start_worker("--exactly-once", "--worker-id", "slot-1")
        assert older.wait(within_s=30) != 0
    assert "Fenced" in older.words
    checker.verdict().require_clean()


def test_a_zombie_whose_place_was_taken_by_one_of_the_same_id_is_fenced(
    checker: Checker, start_worker: "StartWorker"
) -> None:
    zombie = start_worker("--exactly-once", "--worker-id", "slot-1")
    with checker.load(mixed_jobs(1000, "sleep 0.1", budget_ms=60_000), per_s=40):
        checker.wait_for_answers(20)
        freeze(zombie)
        start_worker("--exactly-once", "--worker-id", "slot-1")
        thaw(zombie)
        assert zombie.wait(within_s=30) != 0
    assert "Fenced" in zombie.words
    checker.verdict().require_clean()

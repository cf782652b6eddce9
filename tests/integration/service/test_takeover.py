"""Workers that come, go and die under load: others take over, and every job is answered once."""

import time

import pytest

from tests.service_checker import Checker
from tests.service_jobs import job, mixed_jobs
from tests.service_worker import StartWorker

pytestmark = pytest.mark.kafka


def test_three_workers_share_the_load_while_one_joins_one_leaves_and_one_is_killed(
    checker: Checker, start_worker: StartWorker
) -> None:
    leaves, dies = start_worker(), start_worker()
    with checker.load(mixed_jobs(600), per_s=60):
        checker.wait_for_answers(20)
        start_worker()
        leaves.terminate()
        assert leaves.wait(within_s=20) == 0, leaves.words
        dies.kill()
    checker.verdict().require_clean()


def test_jobs_whose_time_ran_out_during_a_takeover_are_answered_by_the_backfill_lane(
    checker: Checker, start_worker: StartWorker
) -> None:
    only = start_worker()
    checker.submit(*(job(number, "sleep 0.3", budget_ms=500) for number in range(40)))
    time.sleep(0.2)
    only.kill()
    start_worker()
    verdict = checker.verdict().require_clean()
    assert verdict.accepted >= 40

"""SIGTERM under load: what was begun is finished, the rest is left to others, and nothing is answered twice."""

import pytest

from schemas.job import Lane
from tests.service_checker import Checker
from tests.service_jobs import job, mixed_jobs
from tests.service_worker import StartWorker

pytestmark = pytest.mark.kafka


def test_a_worker_that_is_told_to_end_leaves_the_rest_to_another(checker: Checker, start_worker: StartWorker) -> None:
    ends = start_worker()
    start_worker()
    with checker.load(mixed_jobs(300, "sleep 0.1"), per_s=60):
        checker.wait_for_answers(50)
        ends.terminate()
        assert ends.wait(within_s=15) == 0, ends.words
    checker.verdict().require_clean()


def test_the_last_worker_leaves_what_it_did_not_begin_for_the_next(checker: Checker, start_worker: StartWorker) -> None:
    ends = start_worker()
    with checker.load(mixed_jobs(200, "sleep 0.1"), per_s=100):
        checker.wait_for_answers(20)
        ends.terminate()
        assert ends.wait(within_s=15) == 0, ends.words
    start_worker()
    checker.verdict().require_clean()


def test_a_backfill_job_under_way_is_given_back_instead_of_waited_for(
    checker: Checker, start_worker: StartWorker
) -> None:
    ends = start_worker()
    checker.submit(*(job(number, "sleep 1.5", lane=Lane.BACKFILL) for number in range(10, 14)))
    checker.submit(*mixed_jobs(3, "sleep 0.1"))
    checker.wait_for_answers(3)
    ends.terminate()
    assert ends.wait(within_s=15) == 0, ends.words
    start_worker()
    checker.verdict().require_clean()

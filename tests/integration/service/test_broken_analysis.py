"""Analyses that break, refuse, or find too much: each job gets an answer that says so, and the next is not hurt."""

import pytest

from pipeline.bus.topics import Topics
from schemas.errors import ErrorCode
from schemas.job import Lane
from schemas.result import ResultStatus
from tests.service_checker import Checker
from tests.service_jobs import job, mixed_jobs
from tests.service_worker import StartWorker

pytestmark = pytest.mark.kafka


def test_whatever_becomes_of_an_analysis_each_job_has_its_answer(checker: Checker, start_worker: StartWorker) -> None:
    start_worker()
    titles = ("", "raise", "big 3000000", "bad", "refuse", "late")
    for number, title in enumerate(titles):
        checker.submit(job(f"live-{number}", title), job(f"later-{number}", title, lane=Lane.BACKFILL))
    verdict = checker.verdict().require_clean()
    assert verdict.codes == {
        ErrorCode.INTERNAL: 4,  # what broke, and what was too much to send
        ErrorCode.NOT_MEDIA: 2,
        ErrorCode.FETCH_FAILED: 1,
        ErrorCode.FETCH_TIMED_OUT: 1,
    }
    assert verdict.handed_over == 2  # the store that was away, the store that was slow
    assert verdict.answers[ResultStatus.COMPLETE] == 6
    assert verdict.dead_letters == {"BadVideo": 2}


def test_without_hand_over_nothing_comes_back(
    bootstrap: str, topics: Topics, checker: Checker, start_worker: StartWorker
) -> None:
    start_worker("--keep")
    keeping = Checker(bootstrap, topics, group_id=f"{topics.prefix}workers", hand_over=False)
    try:
        keeping.submit(job(1, "refuse"), job(2, "late"), job(3))
        verdict = keeping.verdict().require_clean()
    finally:
        keeping.close()
    assert (verdict.handed_over, verdict.answers.total()) == (0, 3)


def test_a_job_that_is_sent_twice_is_answered_twice(checker: Checker, start_worker: StartWorker) -> None:
    """Each record is answered; the results have the same key, of which the compacted topic keeps the newest."""
    start_worker()
    for _ in range(3):
        checker.submit(*mixed_jobs(20))
    verdict = checker.verdict().require_clean()
    assert verdict.answers == {ResultStatus.COMPLETE: 60}


def test_more_than_can_be_answered_is_refused_and_answered_later(checker: Checker, start_worker: StartWorker) -> None:
    start_worker()
    checker.submit(*(job(number, "sleep 0.1", budget_ms=500) for number in range(100)))
    verdict = checker.verdict().require_clean()
    assert verdict.handed_over >= 50
    assert verdict.answers[ResultStatus.COMPLETE] + verdict.answers[ResultStatus.PARTIAL] >= 100

"""Clocks that are wrong by minutes, the workers' or the producers': fresh jobs are answered all the same."""

import time
from uuid import uuid4

import pytest

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topic, Topics
from schemas.result import ResultStatus
from tests.service_checker import Checker
from tests.service_jobs import job
from tests.service_worker import StartWorker

pytestmark = pytest.mark.kafka

SKEW_S = 300.0
JOBS = 20

believing_producers = pytest.mark.parametrize("topics", ["CreateTime"], indirect=True)
"""On topics whose records carry the producer's time; ours carry the broker's."""


@pytest.fixture
def topics(bootstrap: str, request: pytest.FixtureRequest) -> Topics:
    """Topics that no other test uses."""
    topics = Topics(prefix=f"test-{uuid4().hex[:12]}.")
    stamped = {"message.timestamp.type": getattr(request, "param", "LogAppendTime")}
    KafkaBus(KafkaConnection(bootstrap)).create(
        Topic(topic.name, topic.partitions, {**topic.config, **stamped}, topic.purpose) for topic in topics.all()
    )
    return topics


def submit(checker: Checker, *, budget_ms: int = 5_000, clock_ahead_s: float = 0.0) -> None:
    checker.submit(*(job(number, budget_ms=budget_ms) for number in range(JOBS)), clock_ahead_s=clock_ahead_s)


def look_around() -> None:
    """Let a worker that has just got its partitions look into each: so it knows that what comes later is new."""
    time.sleep(2.0)


@pytest.mark.parametrize("ahead_s", [SKEW_S, -SKEW_S])
def test_a_worker_whose_clock_is_wrong_answers_fresh_jobs_in_time(
    ahead_s: float, checker: Checker, start_worker: StartWorker
) -> None:
    start_worker(f"--clock-ahead-s={ahead_s}")
    look_around()
    submit(checker)
    verdict = checker.verdict().require_clean()
    assert verdict.answers == {ResultStatus.COMPLETE: JOBS}


def test_jobs_that_waited_for_a_worker_are_late_however_soon_it_gets_to_them(
    checker: Checker, start_worker: StartWorker
) -> None:
    submit(checker, budget_ms=500)
    time.sleep(1.0)
    start_worker()
    verdict = checker.verdict().require_clean()
    assert verdict.answers == {ResultStatus.EXPIRED: JOBS, ResultStatus.COMPLETE: JOBS}


@believing_producers
def test_jobs_from_the_future_count_as_new(checker: Checker, start_worker: StartWorker) -> None:
    start_worker()
    submit(checker, clock_ahead_s=SKEW_S)
    verdict = checker.verdict().require_clean()
    assert verdict.answers == {ResultStatus.COMPLETE: JOBS}


@believing_producers
def test_jobs_from_the_past_count_as_new_where_nothing_was_a_moment_ago(
    checker: Checker, start_worker: StartWorker
) -> None:
    start_worker()
    look_around()
    submit(checker, clock_ahead_s=-SKEW_S)
    verdict = checker.verdict().require_clean()
    assert verdict.answers == {ResultStatus.COMPLETE: JOBS}


@believing_producers
def test_jobs_from_the_past_that_were_there_before_the_worker_are_late_and_go_to_the_backfill_lane(
    checker: Checker, start_worker: StartWorker
) -> None:
    submit(checker, clock_ahead_s=-SKEW_S)
    start_worker()
    verdict = checker.verdict().require_clean()
    assert verdict.answers == {ResultStatus.EXPIRED: JOBS, ResultStatus.COMPLETE: JOBS}

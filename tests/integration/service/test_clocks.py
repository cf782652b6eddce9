"""Producers whose clocks are wrong, on topics that believe them: every job is answered all the same."""

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


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    """Topics whose records carry the producer's time; ours carry the broker's."""
    topics = Topics(prefix=f"test-{uuid4().hex[:12]}.")
    believing = [
        Topic(topic.name, topic.partitions, {**topic.config, "message.timestamp.type": "CreateTime"}, topic.purpose)
        for topic in topics.all()
    ]
    KafkaBus(KafkaConnection(bootstrap)).create(believing)
    return topics


def test_jobs_from_the_future_count_as_new(checker: Checker, start_worker: StartWorker) -> None:
    start_worker()
    checker.submit(*(job(number, budget_ms=5_000) for number in range(20)), clock_ahead_s=SKEW_S)
    verdict = checker.verdict().require_clean()
    assert verdict.answers == {ResultStatus.COMPLETE: 20}


def test_jobs_from_the_past_are_late_and_go_to_the_backfill_lane(checker: Checker, start_worker: StartWorker) -> None:
    start_worker()
    checker.submit(*(job(number, budget_ms=5_000) for number in range(20)), clock_ahead_s=-SKEW_S)
    verdict = checker.verdict().require_clean()
    assert verdict.answers == {ResultStatus.EXPIRED: 20, ResultStatus.COMPLETE: 20}

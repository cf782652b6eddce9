"""A language model that fails at every question: clips are answered without it."""

import pytest

from schemas.result import ResultStatus
from tests.conftest import SHIPPED_MEDIA
from tests.service_checker import Checker
from tests.service_jobs import job
from tests.service_worker import StartWorker

pytestmark = [pytest.mark.kafka, pytest.mark.models]


def test_clips_are_answered_though_the_language_model_is_broken(
    weights: object, checker: Checker, start_worker: StartWorker
) -> None:
    start_worker("--broken-llm", "--places", "2")
    for path in sorted(SHIPPED_MEDIA.rglob("*.mp4")):
        checker.submit(job(path.stem, uri=path.as_uri()))
    verdict = checker.verdict().require_clean()
    assert verdict.answers.keys() <= {ResultStatus.COMPLETE, ResultStatus.PARTIAL}
    assert not verdict.codes

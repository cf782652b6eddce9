"""Messages that are no jobs, between some that are: each ends as a dead letter, and holds up nobody."""

import json

import pytest

from pipeline.bus.topics import Topics
from pipeline.ingest.message import Poison
from schemas.job import Lane
from tests.service_checker import Checker
from tests.service_jobs import job, message
from tests.service_worker import StartWorker

pytestmark = pytest.mark.kafka

GOOD = {"job_id": "j", "video_id": "v", "source": {"uri": "file:///clip.mp4"}}


def body(**changes: object) -> bytes:
    return json.dumps(GOOD | changes).encode()


POISON: dict[Poison, tuple[bytes | None, dict[str, bytes]]] = {
    Poison.TOMBSTONE: (None, {}),
    Poison.TOO_LARGE: (body(title="x" * 600_000), {}),
    Poison.WRONG_CONTENT_TYPE: (body(), {"content-type": b"application/avro"}),
    Poison.WRONG_EVENT_TYPE: (body(), {"ce_type": b"somebody.elses.event"}),
    Poison.NOT_UTF8: (b'{"job_id": "\xff\xfe"}', {}),
    Poison.NOT_JSON: (b"\x00\x00\x00\x00\x01avro?", {}),
    Poison.NESTED_TOO_DEEPLY: (b"[" * 100_000, {}),
    Poison.DUPLICATE_KEY: (body()[:-1] + b', "job_id": "k"}', {}),
    Poison.NOT_A_NUMBER: (body(budget_ms=float("nan")), {}),
    Poison.NUMBER_TOO_LARGE: (b'{"budget_ms": ' + b"9" * 100_000 + b"}", {}),
    Poison.NOT_AN_OBJECT: (b"[1, 2]", {}),
    Poison.UNKNOWN_VERSION: (body(schema_version=99), {}),
    Poison.MISSING_FIELD: (b'{"job_id": "j", "source": {"uri": "file:///clip.mp4"}}', {}),
    Poison.UNKNOWN_FIELD: (body(clip="here"), {}),
    Poison.WRONG_TYPE: (body(budget_ms="500"), {}),
    Poison.WRONG_VALUE: (body(priority=-1), {}),
}


def test_each_kind_of_poison_that_a_producer_can_send_is_known_here() -> None:
    assert set(POISON) == set(Poison) - {Poison.DAMAGED}


def test_poison_ends_as_dead_letters_and_the_jobs_between_are_answered(
    checker: Checker, topics: Topics, start_worker: StartWorker
) -> None:
    start_worker()
    for number, (kind, (value, headers)) in enumerate(POISON.items()):
        for lane in Lane:
            checker.send_poison(message(topics.of_lane(lane), f"{kind}-{lane}", value, **headers))
            checker.submit(job(f"{lane}-{number}", lane=lane))
    verdict = checker.verdict().require_clean()
    assert verdict.dead_letters == dict.fromkeys(POISON, 2)
    assert verdict.answers.total() == 2 * len(POISON)


def test_poison_that_a_killed_worker_had_read_kills_nobody(
    checker: Checker, topics: Topics, start_worker: StartWorker
) -> None:
    for kind, (value, headers) in POISON.items():
        checker.send_poison(message(topics.realtime, kind, value, **headers))
    start_worker("--places", "1").kill()
    start_worker()
    checker.submit(job("after"))
    verdict = checker.verdict().require_clean()
    assert set(verdict.dead_letters) == set(POISON)

"""The published contract is what the code does, and what others' tools read."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pipeline.contract import MESSAGES, asyncapi, documents, json_schemas
from schemas.errors import ErrorCode
from schemas.events import DeadLetter, OriginalRecord, SlaEvent
from schemas.job import Lane, Source, VideoJob
from schemas.result import FusedResult, ResultStatus

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(("path", "text"), documents().items())
def test_the_files_are_up_to_date(path: str, text: str) -> None:
    assert (DOCS / path).read_text("utf-8") == text, "run: make contract"


def test_no_schema_is_left_over() -> None:
    published = {f"schemas/{path.name}" for path in (DOCS / "schemas").iterdir()} | {"asyncapi.yaml"}
    assert published == set(documents())


@pytest.mark.parametrize(("name", "schema"), json_schemas().items())
def test_the_schemas_are_json_schemas(name: str, schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_yaml_is_the_document() -> None:
    assert yaml.safe_load(documents()["asyncapi.yaml"]) == asyncapi()


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if "$ref" in part else []
        return own + [found for value in part.values() for found in references(value)]
    return [found for value in part for found in references(value)] if isinstance(part, list) else []


def test_every_reference_leads_somewhere() -> None:
    document = asyncapi()
    for reference in references(document):
        file, _, pointer = reference.partition("#")
        if file:
            assert file.removeprefix("./") in documents()
            continue
        part = document
        for step in pointer.strip("/").split("/"):
            part = part[step]


def test_every_topic_is_a_channel_and_every_kind_of_message_is_used() -> None:
    document = asyncapi()
    assert {channel["address"] for channel in document["channels"].values()} == {
        "video.jobs.realtime",
        "video.jobs.backfill",
        "video.results",
        "video.dead-letters",
        "video.sla",
    }
    used = {name for channel in document["channels"].values() for name in channel["messages"]}
    assert used == {message.name for message in MESSAGES}


WHOLE = {
    "job": VideoJob(video_id="v", source=Source(uri="s3://bucket/clip.mp4"), want=frozenset({"ocr"})),
    "result": FusedResult(pipeline_version="1", job_id="j", video_id="v", status=ResultStatus.COMPLETE),
    "dead-letter": DeadLetter(
        pipeline_version="1",
        original=OriginalRecord(topic="t", partition=0, offset=0, timestamp_ms=0, message_base64="AAA="),
        code=ErrorCode.BAD_MESSAGE,
        error_class="NotJson",
        reason="",
        stage="parse",
        first_failed_at=datetime.now(UTC),
    ),
    "sla": SlaEvent(
        pipeline_version="1",
        job_id="j",
        video_id="v",
        lane=Lane.REALTIME,
        status=ResultStatus.COMPLETE,
        at=datetime.now(UTC),
        latency_ms=1.0,
        in_time=True,
        worker_id="w",
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_we_send_meets_its_schema(name: str) -> None:
    jsonschema.validate(json.loads(WHOLE[name].model_dump_json()), json_schemas()[name])


@pytest.mark.parametrize(
    "change",
    [{"job_id": None}, {"schema_version": 2}, {"colour": "red"}, {"budget_ms": 0}, {"lane": "fast"}],
)
def test_what_we_refuse_does_not_meet_the_schema(change: dict[str, Any]) -> None:
    job = json.loads(WHOLE["job"].model_dump_json()) | change
    changed = {name: value for name, value in job.items() if not (name == "job_id" and value is None)}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, json_schemas()["job"])

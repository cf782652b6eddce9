"""The wire contract as documents: JSON Schemas of the messages, and AsyncAPI 3.0 of the topics. Pure.

Written from the code into ``docs/`` by ``make contract``; a test fails when the files and the code disagree.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from pipeline.bus.headers import JSON, EventType
from pipeline.bus.topics import Topic, Topics
from pipeline.version import PIPELINE_VERSION
from schemas.events import DEAD_LETTER_SCHEMA_VERSION, SLA_EVENT_SCHEMA_VERSION, DeadLetter, SlaEvent
from schemas.job import JOB_SCHEMA_VERSION, VideoJob
from schemas.result import RESULT_SCHEMA_VERSION, FusedResult

Json = dict[str, Any]


class Message(NamedTuple):
    """A kind of message. ``mode``: how the schema is read: what may be sent to us, or what we send."""

    name: str
    model: type[BaseModel]
    version: int
    event_type: str
    key: str
    mode: Literal["validation", "serialization"]


MESSAGES = (
    Message("job", VideoJob, JOB_SCHEMA_VERSION, EventType.JOB, "video_id", "validation"),
    Message("result", FusedResult, RESULT_SCHEMA_VERSION, EventType.RESULT, "video_id", "serialization"),
    Message(
        "dead-letter",
        DeadLetter,
        DEAD_LETTER_SCHEMA_VERSION,
        EventType.DEAD_LETTER,
        "the original key",
        "serialization",
    ),
    Message("sla", SlaEvent, SLA_EVENT_SCHEMA_VERSION, EventType.SLA, "video_id", "serialization"),
)


def json_schemas() -> dict[str, Json]:
    """Return the JSON Schema (draft 2020-12) of each message, by its name."""
    return {message.name: _schema(message) for message in MESSAGES}


def _schema(message: Message) -> Json:
    schema = message.model.model_json_schema(mode=message.mode)
    schema["properties"]["schema_version"] |= {"const": message.version}
    if message.name == "job":  # made up for jobs in process; on the wire it must be there, or retries have no name
        schema["properties"]["job_id"].pop("default", None)
        schema["required"] = [*schema["required"], "job_id"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def asyncapi(topics: Topics = Topics()) -> Json:  # noqa: B008  (frozen)
    """Return the AsyncAPI 3.0 document. Payloads refer to ``schemas/NAME.json`` beside it."""
    jobs, made = (topics.realtime, topics.backfill), (topics.results, topics.dead_letters, topics.sla)
    carried = {topics.realtime: "job", topics.backfill: "job"} | dict(
        zip(made, ("result", "dead-letter", "sla"), strict=True)
    )
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "halfsecond",
            "version": PIPELINE_VERSION,
            "description": "Clips in, what they show, say and mean out, within half a second.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": JSON,
        "servers": {
            "local": {
                "host": "127.0.0.1:9092",
                "protocol": "kafka",
                "description": "Any Kafka from 2.5 on. `make kafka` starts one.",
            }
        },
        "channels": {_id(topic.name): _channel(topic, message=carried[topic.name]) for topic in topics.all()},
        "operations": {
            f"{action}-{_id(name)}": _operation(name, action=action, message=carried[name])
            for action, names in (("receive", jobs), ("send", made))
            for name in names
        },
        "components": {
            "messages": {message.name: _message(message) for message in MESSAGES},
        },
    }


def _id(topic: str) -> str:
    return topic.replace(".", "-")


def _channel(topic: Topic, *, message: str) -> Json:
    return {
        "address": topic.name,
        "description": topic.purpose,
        "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        "bindings": {
            "kafka": {"partitions": topic.partitions, "topicConfiguration": _topic_configuration(topic.config)}
        },
    }


def _topic_configuration(config: Mapping[str, str]) -> Json:
    numbers = {name: int(value) for name, value in config.items() if value.isdigit()}
    return {"cleanup.policy": [config["cleanup.policy"]], **numbers}


def _operation(topic: str, *, action: str, message: str) -> Json:
    channel = f"#/channels/{_id(topic)}"
    return {
        "action": action,
        "channel": {"$ref": channel},
        "messages": [{"$ref": f"{channel}/messages/{message}"}],
    }


def _message(message: Message) -> Json:
    return {
        "name": message.event_type,
        "title": message.model.__name__,
        "summary": (message.model.__doc__ or "").splitlines()[0],
        "contentType": JSON,
        "headers": _headers_schema(message.event_type),
        "payload": {
            "schemaFormat": "application/schema+json;version=draft-2020-12",
            "schema": {"$ref": f"./schemas/{message.name}.json"},
        },
        "bindings": {"kafka": {"key": {"type": "string", "description": message.key}}},
    }


def _headers_schema(event_type: str) -> Json:
    text: Json = {"type": "string"}
    return {
        "type": "object",
        "description": "CloudEvents 1.0, binary mode, and W3C trace context. Producers may leave them out.",
        "properties": {
            "ce_specversion": {**text, "const": "1.0"},
            "ce_id": text,
            "ce_type": {**text, "const": event_type},
            "ce_source": {**text, "format": "uri-reference"},
            "ce_time": {**text, "format": "date-time"},
            "content-type": {**text, "const": JSON},
            "traceparent": {**text, "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"},
            "hs_origin": {
                **text,
                "pattern": "^[A-Za-z0-9._-]+/[0-9]+/[0-9]+$",
                "description": "From workers: the record that this comes from, as topic/partition/offset",
            },
        },
    }


def documents() -> dict[str, str]:
    """Return every file of the contract: its text by its path below ``docs/``."""
    schemas = {
        f"schemas/{name}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in json_schemas().items()
    }
    return {"asyncapi.yaml": "# Written by `make contract` from the code: do not edit.\n" + yaml(asyncapi()), **schemas}


def yaml(value: Any, *, indent: int = 0) -> str:
    """Return JSON data as block YAML. Scalars are written as JSON, which YAML reads as the same values."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        return "".join(f"{pad}{_key(name)}:{_nested(part, indent)}" for name, part in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{pad}-{_nested(part, indent)}" for part in value)
    return f"{pad}{json.dumps(value, ensure_ascii=False)}\n"


def _nested(part: Any, indent: int) -> str:
    if isinstance(part, dict | list) and part:
        return "\n" + yaml(part, indent=indent + 1)
    return f" {json.dumps(part, ensure_ascii=False)}\n"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and not name[0].isdigit() else json.dumps(name)

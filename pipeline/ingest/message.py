"""Reads a job from a record. Pure; whatever is wrong with a message ends here, with its kind."""

import base64
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipeline.bus.base import Headers, Record
from pipeline.bus.headers import JSON, EventType, TraceContext, header, trace_of
from pipeline.ingest.clock_skew import ClockSkew
from pipeline.plain_text import plain
from schemas.deadline import Clock, Deadline
from schemas.errors import ErrorCode, HalfsecondError
from schemas.events import MAX_KEPT_BYTES, OriginalHeader, OriginalRecord
from schemas.job import JOB_SCHEMA_VERSION, Lane, VideoJob

MAX_DEPTH = 32
"""A job nests two deep."""

MAX_DIGITS = 18
"""Of a whole number. Python would take quadratic time over a million of them."""

WallClock = Callable[[], float]
"""Returns seconds since 1970."""


class Poison(StrEnum):
    """What is wrong with a message. On the wire as a dead letter's ``error_class``."""

    DAMAGED = "Damaged"
    TOMBSTONE = "Tombstone"
    TOO_LARGE = "TooLarge"
    WRONG_CONTENT_TYPE = "WrongContentType"
    WRONG_EVENT_TYPE = "WrongEventType"
    NOT_UTF8 = "NotUtf8"
    NOT_JSON = "NotJson"
    NESTED_TOO_DEEPLY = "NestedTooDeeply"
    DUPLICATE_KEY = "DuplicateKey"
    NOT_A_NUMBER = "NotANumber"
    NUMBER_TOO_LARGE = "NumberTooLarge"
    NOT_AN_OBJECT = "NotAnObject"
    UNKNOWN_VERSION = "UnknownVersion"
    MISSING_FIELD = "MissingField"
    UNKNOWN_FIELD = "UnknownField"
    WRONG_TYPE = "WrongType"
    WRONG_VALUE = "WrongValue"


class BadMessage(HalfsecondError):
    """Raised when a message is no job. Sending it again would not help."""

    def __init__(self, kind: Poison, message: str) -> None:
        super().__init__(ErrorCode.BAD_MESSAGE, message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class IngestClocks:
    """``wall`` dates records, ``monotonic`` carries deadlines; ``skew`` corrects the one for the other."""

    wall: WallClock
    monotonic: Clock
    skew: ClockSkew


@dataclass(frozen=True, slots=True)
class IngestedJob:
    """A job as the worker runs it: on its topic's lane, with its deadline.

    ``age_s``: how old the record was when it was read; ``skew_s``: by how much its timestamp was corrected.
    """

    job: VideoJob
    deadline: Deadline
    trace: TraceContext
    age_s: float
    skew_s: float


def job_from_record(record: Record, *, lane: Lane, clocks: IngestClocks) -> IngestedJob:
    """Read the job and start its clock, at the record's timestamp. Raises ``BadMessage``.

    The topic says the lane, whatever the message says. A backfill job has a deadline only when its message names one.
    """
    read_s = clocks.monotonic()
    empty_for_s = None if record.came_after_s is None else read_s - record.came_after_s
    arrival = clocks.skew.arrival(record.timestamp_ms, now_s=clocks.wall(), empty_for_s=empty_for_s)
    if record.damaged:
        raise BadMessage(Poison.DAMAGED, "the record itself cannot be read")
    job = parse_job(record.value, record.headers)
    budget_ms = job.budget_ms if lane is Lane.REALTIME or "budget_ms" in job.model_fields_set else None
    return IngestedJob(
        job=job.model_copy(update={"lane": lane, "budget_ms": budget_ms}),
        deadline=_deadline(budget_ms, sent_s=read_s - arrival.age_s, clock=clocks.monotonic),
        trace=trace_of(record.headers),
        age_s=arrival.age_s,
        skew_s=arrival.skew_s,
    )


def _deadline(budget_ms: int | None, *, sent_s: float, clock: Clock) -> Deadline:
    return Deadline.never(clock=clock) if budget_ms is None else Deadline(sent_s + budget_ms / 1000, clock)


def parse_job(value: bytes | None, headers: Headers) -> VideoJob:
    """Return the job that a message's bytes hold. Raises ``BadMessage``."""
    if value is None:
        raise BadMessage(Poison.TOMBSTONE, "the message has no value")
    if len(value) > MAX_KEPT_BYTES:
        raise BadMessage(Poison.TOO_LARGE, f"{len(value)} bytes; a job has at most {MAX_KEPT_BYTES}")
    _check_headers(headers)
    _check_document(_document(value))
    try:
        # From the bytes once more: only there is strictness that of JSON, where a lane or a time is a string.
        return VideoJob.model_validate_json(value, strict=True)
    except ValidationError as error:
        raise _invalid(error.errors(include_url=False, include_input=False)[0]) from None


def _check_headers(headers: Headers) -> None:
    content_type = header(headers, "content-type")
    if content_type is not None and content_type.split(";")[0].strip().lower() != JSON:
        raise BadMessage(Poison.WRONG_CONTENT_TYPE, f"the content type is {_quoted(content_type)}, not {JSON}")
    event_type = header(headers, "ce_type")
    if event_type is not None and event_type != EventType.JOB:
        raise BadMessage(Poison.WRONG_EVENT_TYPE, f"the event type is {_quoted(event_type)}, not {EventType.JOB}")


def _document(value: bytes) -> Any:
    try:
        document = json.loads(
            value.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_whole_number,
            parse_float=_fraction,
            parse_constant=_not_a_number,
        )
    except UnicodeDecodeError as error:
        raise BadMessage(Poison.NOT_UTF8, f"byte {error.start} is no UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadMessage(Poison.NOT_JSON, f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise BadMessage(Poison.NESTED_TOO_DEEPLY, "objects or lists lie too deeply in each other") from None
    return document


def _check_document(document: Any) -> None:
    if not isinstance(document, dict):
        raise BadMessage(Poison.NOT_AN_OBJECT, f"the message is a JSON {type(document).__name__}, not an object")
    if _deeper_than(document, MAX_DEPTH):
        raise BadMessage(Poison.NESTED_TOO_DEEPLY, f"objects or lists lie more than {MAX_DEPTH} deep in each other")
    version = document.get("schema_version", JOB_SCHEMA_VERSION)
    if type(version) is not int or version != JOB_SCHEMA_VERSION:
        raise BadMessage(Poison.UNKNOWN_VERSION, f"schema_version is {_quoted(version)}, not {JOB_SCHEMA_VERSION}")
    if "job_id" not in document:  # the model would make one up, and another one each time the message is read
        raise BadMessage(Poison.MISSING_FIELD, "job_id: Field required")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise BadMessage(Poison.DUPLICATE_KEY, f"{_quoted(twice)} is there more than once")
    return found


def _whole_number(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise BadMessage(Poison.NUMBER_TOO_LARGE, f"a number has {len(digits)} digits")
    return int(digits)


def _fraction(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise BadMessage(Poison.NUMBER_TOO_LARGE, f"{_quoted(digits)} is too large a number")
    return number


def _not_a_number(name: str) -> NoReturn:
    raise BadMessage(Poison.NOT_A_NUMBER, f"{name} is no JSON")


def _deeper_than(part: Any, depth: int) -> bool:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return any(depth == 0 or _deeper_than(value, depth - 1) for value in inner if isinstance(value, dict | list))


def _invalid(error: ErrorDetails) -> BadMessage:
    place = ".".join(str(part) for part in error["loc"])
    return BadMessage(_kind(error["type"]), plain(f"{place}: {error['msg']}", limit=500))


def _kind(pydantic_type: str) -> Poison:
    if pydantic_type == "missing":
        return Poison.MISSING_FIELD
    if pydantic_type == "extra_forbidden":
        return Poison.UNKNOWN_FIELD
    return Poison.WRONG_TYPE if pydantic_type.endswith(("_type", "_parsing")) else Poison.WRONG_VALUE


def _quoted(value: object) -> str:
    return repr(plain(str(value), limit=80))


def original_record(record: Record) -> OriginalRecord:
    """Return ``record`` as a dead letter carries it: bounded, and as far as it fits byte for byte."""
    return OriginalRecord(
        topic=record.partition.topic,
        partition=record.partition.number,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key_base64=None if record.key is None else _base64(record.key, limit=3072),
        message_base64=None if record.value is None else _base64(record.value, limit=MAX_KEPT_BYTES),
        message_bytes=len(record.value or b""),
        headers=tuple(
            OriginalHeader(name=plain(name, limit=200), value_base64=_base64(value, limit=3072))
            for name, value in record.headers[:32]
        ),
    )


def _base64(value: bytes, *, limit: int) -> str:
    return base64.b64encode(value[:limit]).decode("ascii")

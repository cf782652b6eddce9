"""Every kind of bad message is told apart, and a good one becomes a job with its deadline."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.bus.base import Headers, Partition, Record
from pipeline.bus.headers import CloudEvent, EventType, TraceContext, event_headers
from pipeline.ingest.clock_skew import ClockSkew
from pipeline.ingest.message import (
    MAX_DIGITS,
    BadMessage,
    IngestClocks,
    Poison,
    job_from_record,
    original_record,
    parse_job,
)
from schemas.errors import ErrorCode
from schemas.events import MAX_KEPT_BYTES, DeadLetter
from schemas.job import Lane, Source, VideoJob

NOW_S = 1_800_000_000.0
READ_S = 100.0
"""Of the monotonic clock."""


def job(**changes: Any) -> dict[str, Any]:
    """A job as a producer writes it."""
    return {"schema_version": 1, "job_id": "j", "video_id": "v", "source": {"uri": "file:///clip.mp4"}, **changes}


def written(**changes: Any) -> bytes:
    return json.dumps(job(**changes)).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in job().items() if key != name}).encode()


def record(value: bytes | None = None, *, age_s: float = 0.0, headers: Headers = ()) -> Record:
    return Record(
        partition=Partition("video.jobs.realtime", 3),
        offset=41,
        key=b"v",
        value=written() if value is None else value,
        headers=headers,
        timestamp_ms=int((NOW_S - age_s) * 1000),
    )


def clocks(skew: ClockSkew | None = None) -> IngestClocks:
    return IngestClocks(wall=lambda: NOW_S, monotonic=lambda: READ_S, skew=skew or ClockSkew())


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, Poison.TOMBSTONE),
        (b'{"a":"' + b"x" * MAX_KEPT_BYTES + b'"}', Poison.TOO_LARGE),
        (b"", Poison.NOT_JSON),
        (b"hello", Poison.NOT_JSON),
        (b'{"job_id": "j"', Poison.NOT_JSON),
        (written() + written(), Poison.NOT_JSON),
        (b"\xef\xbb\xbf" + written(), Poison.NOT_JSON),
        (b'{"job_id": "\x00"}', Poison.NOT_JSON),
        (b"\xff\xfe{}", Poison.NOT_UTF8),
        (json.dumps(job()).encode("utf-16"), Poison.NOT_UTF8),
        (b'{"job_id": "\xed\xa0\x80"}', Poison.NOT_UTF8),
        (b"[" * 100_000, Poison.NESTED_TOO_DEEPLY),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, Poison.NESTED_TOO_DEEPLY),
        (written(want=[[["deep"]]]), Poison.WRONG_TYPE),
        (b'{"a":' + b"[" * 40 + b"]" * 40 + b"}", Poison.NESTED_TOO_DEEPLY),
        (b'{"job_id": "a", "job_id": "b"}', Poison.DUPLICATE_KEY),
        (b'{"source": {"uri": "file:///a", "uri": "file:///b"}}', Poison.DUPLICATE_KEY),
        (b'{"budget_ms": NaN}', Poison.NOT_A_NUMBER),
        (b'{"budget_ms": -Infinity}', Poison.NOT_A_NUMBER),
        (b'{"budget_ms": 1e999}', Poison.NUMBER_TOO_LARGE),
        (b'{"budget_ms": ' + b"9" * 400_000 + b"}", Poison.NUMBER_TOO_LARGE),
        (b'{"priority": -' + b"9" * (MAX_DIGITS + 1) + b"}", Poison.NUMBER_TOO_LARGE),
        (b"[1, 2]", Poison.NOT_AN_OBJECT),
        (b'"job"', Poison.NOT_AN_OBJECT),
        (b"null", Poison.NOT_AN_OBJECT),
        (written(schema_version=2), Poison.UNKNOWN_VERSION),
        (written(schema_version=True), Poison.UNKNOWN_VERSION),
        (written(schema_version="1"), Poison.UNKNOWN_VERSION),
        (without("job_id"), Poison.MISSING_FIELD),
        (without("video_id"), Poison.MISSING_FIELD),
        (without("source"), Poison.MISSING_FIELD),
        (written(source={}), Poison.MISSING_FIELD),
        (written(source={"uri": "file:///a", "password": "x"}), Poison.UNKNOWN_FIELD),
        (written(colour="red"), Poison.UNKNOWN_FIELD),
        (written(title=None), Poison.WRONG_TYPE),
        (written(video_id=7), Poison.WRONG_TYPE),
        (written(budget_ms="500"), Poison.WRONG_TYPE),
        (written(budget_ms=True), Poison.WRONG_TYPE),
        (written(source="file:///a"), Poison.WRONG_TYPE),
        (written(budget_ms=0), Poison.WRONG_VALUE),
        (written(priority=10), Poison.WRONG_VALUE),
        (written(lane="fast"), Poison.WRONG_VALUE),
        (written(job_id=""), Poison.WRONG_VALUE),
        (written(video_id="x" * 201), Poison.WRONG_VALUE),
        (written(description="x" * 10_001), Poison.WRONG_VALUE),
        (written(ingested_at="2026-01-01T00:00:00"), Poison.WRONG_VALUE),
        (written(source={"uri": "file:///a", "sha256": "no hash"}), Poison.WRONG_VALUE),
    ],
)
def test_bad_messages_are_told_apart(value: bytes | None, kind: Poison) -> None:
    with pytest.raises(BadMessage) as raised:
        parse_job(value, ())
    assert raised.value.kind is kind
    assert raised.value.code is ErrorCode.BAD_MESSAGE
    assert not raised.value.retryable
    assert len(raised.value.message) < 1000


def test_a_record_that_could_not_be_read_is_no_tombstone() -> None:
    damaged = Record(Partition("t", 0), 1, key=None, value=None, headers=(), timestamp_ms=-1, damaged=True)
    with pytest.raises(BadMessage) as raised:
        job_from_record(damaged, lane=Lane.REALTIME, clocks=clocks())
    assert raised.value.kind is Poison.DAMAGED


def test_half_of_a_pair_of_surrogates_is_no_text() -> None:
    with pytest.raises(BadMessage):
        parse_job(b'{"schema_version": 1, "job_id": "j", "video_id": "\\ud800", "source": {"uri": "file:///a"}}', ())


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ((("content-type", b"application/x-protobuf"),), Poison.WRONG_CONTENT_TYPE),
        ((("Content-Type", b"application/cloudevents+json"),), Poison.WRONG_CONTENT_TYPE),
        ((("ce_type", b"halfsecond.video.result.v1"),), Poison.WRONG_EVENT_TYPE),
        ((("ce_type", EventType.JOB.encode()), ("ce_type", b"something else")), Poison.WRONG_EVENT_TYPE),
    ],
)
def test_messages_of_another_kind_are_refused_by_their_headers(headers: Headers, kind: Poison) -> None:
    with pytest.raises(BadMessage) as raised:
        parse_job(written(), headers)
    assert raised.value.kind is kind


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("content-type", b"application/json"),),
        (("content-type", b"Application/JSON; charset=utf-8"),),
        (("content-type", b"\xff\xff"), ("traceparent", b"\x00" * 5000)),
        event_headers(CloudEvent("1", EventType.JOB, "/test", datetime.now(UTC)), TraceContext.root()),
    ],
)
def test_headers_may_be_absent_right_or_rubbish_that_matters_to_nobody(headers: Headers) -> None:
    assert parse_job(written(), headers).video_id == "v"


def test_hostile_text_in_a_bad_message_is_made_plain_and_cut() -> None:
    with pytest.raises(BadMessage) as raised:
        parse_job(json.dumps({**job(), "\x1b[31m\u202e" + "x" * 5000: 1}).encode(), ())
    assert "\x1b" not in raised.value.message
    assert "\u202e" not in raised.value.message
    assert len(raised.value.message) <= 500


def test_every_field_at_its_limit_and_escaped_is_still_a_message() -> None:
    letter = "\U0001f3ac"
    whole = VideoJob(
        job_id=letter * 200,
        video_id=letter * 200,
        source=Source(uri="file:///" + letter * 16_376, sha256="0" * 64, size_bytes=10**15),
        title=letter * 2000,
        description=letter * 10_000,
        ingested_at=datetime.now(UTC),
    )
    value = json.dumps(whole.model_dump(mode="json"), ensure_ascii=True).encode()
    assert parse_job(value, ()) == whole


def test_the_deadline_counts_from_the_record() -> None:
    ingested = job_from_record(record(age_s=0.1), lane=Lane.REALTIME, clocks=clocks())
    assert ingested.deadline.at_s == pytest.approx(100.4)
    assert ingested.age_s == pytest.approx(0.1)


def test_a_record_that_waited_too_long_is_late_already() -> None:
    assert job_from_record(record(age_s=2.0), lane=Lane.REALTIME, clocks=clocks()).deadline.expired


def test_the_topic_says_the_lane() -> None:
    claims = written(lane="realtime")
    assert job_from_record(record(claims), lane=Lane.BACKFILL, clocks=clocks()).job.lane is Lane.BACKFILL


def test_backfill_has_a_deadline_only_when_the_message_names_one() -> None:
    silent = job_from_record(record(), lane=Lane.BACKFILL, clocks=clocks())
    assert silent.job.budget_ms is None
    assert silent.deadline.at_s == float("inf")
    named = job_from_record(record(written(budget_ms=2000)), lane=Lane.BACKFILL, clocks=clocks())
    assert named.deadline.at_s == pytest.approx(102.0)


def test_realtime_without_a_deadline_may_be_asked_for() -> None:
    ingested = job_from_record(record(written(budget_ms=None)), lane=Lane.REALTIME, clocks=clocks())
    assert ingested.deadline.at_s == float("inf")


@pytest.mark.parametrize("minutes_ahead", [-5, 5])
def test_a_clock_that_is_wrong_by_minutes_spoils_no_deadline(minutes_ahead: int) -> None:
    skew = ClockSkew()
    wrong = replace(record(age_s=-60.0 * minutes_ahead), came_after_s=READ_S - 0.02)
    ingested = job_from_record(wrong, lane=Lane.REALTIME, clocks=clocks(skew))
    assert 0.47 < ingested.deadline.remaining() <= 0.5
    assert abs(ingested.skew_s) == pytest.approx(300, abs=1)
    assert (skew.ahead, skew.behind) == ((1, 0) if minutes_ahead > 0 else (0, 1))


@pytest.mark.parametrize("empty_for_s", [None, 61.0, 3600.0])
def test_what_may_have_waited_for_long_is_as_old_as_its_timestamp_says(empty_for_s: float | None) -> None:
    waited = replace(record(age_s=60.0), came_after_s=None if empty_for_s is None else READ_S - empty_for_s)
    ingested = job_from_record(waited, lane=Lane.REALTIME, clocks=clocks())
    assert ingested.deadline.expired
    assert (ingested.age_s, ingested.skew_s) == (pytest.approx(60.0), 0.0)


def test_the_senders_trace_goes_on() -> None:
    trace = TraceContext.root()
    headers = (("traceparent", str(trace).encode()),)
    assert job_from_record(record(headers=headers), lane=Lane.REALTIME, clocks=clocks()).trace == trace


def test_what_a_dead_letter_keeps_is_bounded_and_fits_into_a_message() -> None:
    huge = Record(
        partition=Partition("video.jobs.realtime", 3),
        offset=41,
        key=b"\xff" * 100_000,
        value=b"\x00" * 1024 * 1024,
        headers=tuple((f"{n}\x1b" * 300, b"\xff" * 100_000) for n in range(100)),
        timestamp_ms=-1,
    )
    original = original_record(huge)
    assert original.message_bytes == 1024 * 1024
    letter = DeadLetter(
        pipeline_version="1",
        original=original,
        code=ErrorCode.BAD_MESSAGE,
        error_class=Poison.TOO_LARGE,
        reason="\U0001f3ac" * 2000,
        stage="parse",
        first_failed_at=datetime.now(UTC),
    )
    assert len(letter.model_dump_json()) < 1_000_000


def test_a_dead_letter_keeps_a_whole_job_byte_for_byte() -> None:
    original = original_record(record(b"\xff\x00", headers=(("a", b"\x01"),)))
    assert (original.message_base64, original.key_base64) == ("/wA=", "dg==")
    assert [(header.name, header.value_base64) for header in original.headers] == [("a", "AQ==")]
    assert (original.topic, original.partition, original.offset) == ("video.jobs.realtime", 3, 41)

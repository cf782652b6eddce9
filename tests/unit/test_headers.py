"""CloudEvents and trace headers: what we write is by the book, what we read may be anything."""

from datetime import datetime, timedelta, timezone

import pytest

from pipeline.bus.headers import (
    MAX_HEADER_BYTES,
    CloudEvent,
    EventType,
    TraceContext,
    event_headers,
    header,
    parse_traceparent,
    trace_of,
)

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def test_headers_are_those_of_cloudevents_in_binary_mode() -> None:
    time = datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=timezone(timedelta(hours=2)))
    event = CloudEvent("id-1", EventType.JOB, "/producer", time)
    assert event_headers(event, TraceContext(TRACE, SPAN)) == (
        ("ce_specversion", b"1.0"),
        ("ce_id", b"id-1"),
        ("ce_type", b"halfsecond.video.job.v1"),
        ("ce_source", b"/producer"),
        ("ce_time", b"2026-02-03T02:05:06.789Z"),
        ("content-type", b"application/json"),
        ("traceparent", f"00-{TRACE}-{SPAN}-01".encode()),
    )


def test_the_last_header_of_a_name_counts_in_any_letter_case() -> None:
    assert header((("A", b"1"), ("a", b"2"), ("b", b"3")), "a") == "2"


@pytest.mark.parametrize("value", [b"\xff", b"x" * (MAX_HEADER_BYTES + 1)])
def test_headers_that_are_no_short_text_read_as_absent(value: bytes) -> None:
    assert header((("a", value),), "a") is None
    assert header((), "a") is None


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"01-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be", True),
    ],
)
def test_traces_are_read_as_far_as_this_version_knows_them(text: str, sampled: bool) -> None:
    assert parse_traceparent(text) == TraceContext(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-٠١",
    ],
)
def test_what_the_specification_calls_invalid_is_no_trace(text: str) -> None:
    assert parse_traceparent(text) is None


def test_without_a_valid_trace_a_new_one_begins() -> None:
    drawn = iter(["0" * 32, TRACE, "0" * 16, SPAN])
    assert trace_of((("traceparent", b"\xff"),), lambda _size: next(drawn)) == TraceContext(TRACE, SPAN)


def test_a_child_has_its_parents_trace_and_a_span_of_its_own() -> None:
    parent = TraceContext(TRACE, SPAN, sampled=False)
    child = parent.child(lambda size: "ab" * size)
    assert child == TraceContext(TRACE, "ab" * 8, sampled=False)
    assert parse_traceparent(str(child)) == child

"""Kafka headers: CloudEvents 1.0 (binary mode) and W3C trace context. Pure.

Headers come from outside: whatever is wrong in them reads as absent here, and is refused by whoever needs it.
"""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.bus.base import Headers

JSON = "application/json"
MAX_HEADER_BYTES = 1024

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1

RandomHex = Callable[[int], str]
"""Returns so many random bytes in hexadecimal digits."""


class EventType:
    """The ``ce_type`` of each message. The last part is the schema's version."""

    JOB = "halfsecond.video.job.v1"
    RESULT = "halfsecond.video.result.v1"
    DEAD_LETTER = "halfsecond.video.dead-letter.v1"
    SLA = "halfsecond.video.sla.v1"


@dataclass(frozen=True, slots=True)
class TraceContext:
    """One span of a distributed trace."""

    trace_id: str
    span_id: str
    sampled: bool = True

    def child(self, random_hex: RandomHex = secrets.token_hex) -> "TraceContext":
        """Return a new span below this one."""
        return TraceContext(self.trace_id, _nonzero(8, random_hex), self.sampled)

    @classmethod
    def root(cls, random_hex: RandomHex = secrets.token_hex) -> "TraceContext":
        """Return the first span of a new trace."""
        return cls(_nonzero(16, random_hex), _nonzero(8, random_hex))

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """What a message is. ``source``: a URI reference of who sends it; ``id`` is unique within it."""

    id: str
    type: str
    source: str
    time: datetime


def event_headers(event: CloudEvent, trace: TraceContext) -> Headers:
    """Return the headers of a message with a JSON value."""
    fields = {
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_type": event.type,
        "ce_source": event.source,
        "ce_time": event.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "content-type": JSON,
        "traceparent": str(trace),
    }
    return tuple((name, value.encode()) for name, value in fields.items())


def header(headers: Headers, name: str) -> str | None:
    """Return the last header of that name, letter case aside, as text; None without one, or when it is no short text.

    The last, because whoever passes a message on appends.
    """
    for found, value in reversed(headers):
        if found.lower() == name:
            try:
                return value.decode("utf-8") if len(value) <= MAX_HEADER_BYTES else None
            except UnicodeDecodeError:
                return None
    return None


def trace_of(headers: Headers, random_hex: RandomHex = secrets.token_hex) -> TraceContext:
    """Return the sender's span, or the root of a new trace when the header is absent or wrong."""
    return parse_traceparent(header(headers, "traceparent") or "") or TraceContext.root(random_hex)


def parse_traceparent(text: str) -> TraceContext | None:
    """Read version 00, and later versions as far as they are alike. None for what the specification calls invalid."""
    match = _TRACEPARENT.fullmatch(text)
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(trace_id, span_id, sampled=bool(int(flags, 16) & _SAMPLED))


def _nonzero(size_bytes: int, random_hex: RandomHex) -> str:
    while not int(drawn := random_hex(size_bytes), 16):
        pass  # all zeros mean "no id"
    return drawn

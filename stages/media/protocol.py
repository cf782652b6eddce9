"""What a decoder process and its owner say to each other.

Requests are lines of JSON. A reply is a fixed head, JSON, and raw bytes (pixels or samples), so that its receiver never
has to unpickle anything: a decoder that a hostile file has taken over can lie, but not run code elsewhere.
"""

import dataclasses
import json
import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.errors import ErrorCode
from stages.media.facts import Damage, MediaFacts, Picture, Sound

HEAD = struct.Struct(">BIII")
"""Kind of reply (its place in ``REPLIES``), sequence number of the request, bytes of JSON, raw bytes."""

MAX_JSON_BYTES = 64 * 1024**2
MAX_RAW_BYTES = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class Open:
    """Open another file; the one before is closed. ``path`` holds the name's bytes as Latin-1."""

    path: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Answered by ``MediaFacts``."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """Answered by one ``Picture`` each and a ``Damage``."""

    times_s: tuple[float, ...]
    key_only: bool
    max_side_px: int


@dataclass(frozen=True, slots=True)
class Listen:
    """Answered by ``Sound``."""

    max_s: float


@dataclass(frozen=True, slots=True)
class Close:
    """Close the file."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Give up the request of this sequence number if it still runs. Not answered itself."""


Command = Open | Probe | Pictures | Listen | Close | Stop
_COMMANDS: dict[str, type[Any]] = {c.__name__: c for c in (Open, Probe, Pictures, Listen, Close, Stop)}


class Request(NamedTuple):
    """One command. ``at_s``: monotonic instant at which the work is given up; clocks agree on one host."""

    sequence: int
    at_s: float
    command: Command


@dataclass(frozen=True, slots=True)
class Done:
    """A request is answered that has nothing to tell, or the process has started (sequence 0)."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A request could not be answered; there are no more replies to it."""

    code: ErrorCode
    message: str
    retryable: bool = field(default=False)


Reply = Done | Failed | MediaFacts | Picture | Damage | Sound
REPLIES: tuple[type[Any], ...] = (Done, Failed, MediaFacts, Picture, Damage, Sound)
RAW_FIELDS = {Picture: "rgb", Sound: "samples"}
"""The field of a reply that travels as raw bytes."""


def encode_request(request: Request) -> bytes:
    """Return a line of JSON."""
    name = type(request.command).__name__
    return _json([request.sequence, request.at_s, name, request.command]) + b"\n"


def decode_request(line: bytes) -> Request:
    """Read what ``encode_request`` wrote: the owner is trusted."""
    sequence, at_s, name, values = json.loads(line)
    return Request(sequence, at_s, _COMMANDS[name](**values))


def encode_reply(sequence: int, reply: Reply) -> tuple[bytes, bytes]:
    """Return head with JSON, and the raw bytes."""
    raw_field = RAW_FIELDS.get(type(reply))
    raw = getattr(reply, raw_field) if raw_field else b""
    body = _json(with_field(reply, raw_field, "") if raw_field else reply)
    return HEAD.pack(REPLIES.index(type(reply)), sequence, len(body), len(raw)) + body, raw


def with_field(reply: Any, name: str, value: bytes | str) -> Any:
    """Return a copy of a reply with other raw bytes (or, for JSON, with none)."""
    return dataclasses.replace(reply, **{name: value})


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_fields, separators=(",", ":")).encode()


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}

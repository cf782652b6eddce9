"""Error and warning codes, and the exceptions that carry them.

A code is part of the wire contract: consumers switch on it. The message beside it is for people and may change.
"""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Why an input was refused or a stage failed."""

    # The file itself
    NOT_FOUND = "NOT_FOUND"
    NOT_READABLE = "NOT_READABLE"
    NOT_A_REGULAR_FILE = "NOT_A_REGULAR_FILE"
    BAD_NAME = "BAD_NAME"
    EMPTY_FILE = "EMPTY_FILE"
    TOO_LARGE = "TOO_LARGE"
    # What is in it
    NOT_MEDIA = "NOT_MEDIA"
    PLAYLIST_REFUSED = "PLAYLIST_REFUSED"
    UNSUPPORTED_FORMAT = "UNSUPPORTED_FORMAT"
    DAMAGED_CONTAINER = "DAMAGED_CONTAINER"
    NO_VIDEO_STREAM = "NO_VIDEO_STREAM"
    UNSUPPORTED_VIDEO_CODEC = "UNSUPPORTED_VIDEO_CODEC"
    UNSUPPORTED_AUDIO_CODEC = "UNSUPPORTED_AUDIO_CODEC"
    ENCRYPTED = "ENCRYPTED"
    TOO_LONG = "TOO_LONG"
    TOO_MANY_PIXELS = "TOO_MANY_PIXELS"
    DECODE_FAILED = "DECODE_FAILED"
    # Limits of the decoder's process
    DECODER_TIMED_OUT = "DECODER_TIMED_OUT"
    DECODER_CRASHED = "DECODER_CRASHED"
    DECODER_OUT_OF_MEMORY = "DECODER_OUT_OF_MEMORY"
    # The service
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    MODEL_MISSING = "MODEL_MISSING"
    MODEL_FAILED = "MODEL_FAILED"
    # The language model
    EMPTY_PROMPT = "EMPTY_PROMPT"
    PROMPT_TOO_LONG = "PROMPT_TOO_LONG"
    BAD_SCHEMA = "BAD_SCHEMA"
    ENGINE_FAILED = "ENGINE_FAILED"
    OVERLOADED = "OVERLOADED"
    # Fetching and the message bus
    FETCH_REFUSED = "FETCH_REFUSED"
    FETCH_FAILED = "FETCH_FAILED"
    FETCH_TIMED_OUT = "FETCH_TIMED_OUT"
    CHECKSUM_MISMATCH = "CHECKSUM_MISMATCH"
    BAD_MESSAGE = "BAD_MESSAGE"
    BUS_FAILED = "BUS_FAILED"
    # Start-up
    BAD_SETTING = "BAD_SETTING"
    INTERNAL = "INTERNAL"


class WarningCode(StrEnum):
    """What is odd about an input that was answered all the same."""

    TRUNCATED = "TRUNCATED"
    DAMAGED_PACKETS = "DAMAGED_PACKETS"
    HEADER_MISMATCH = "HEADER_MISMATCH"
    NO_VIDEO_STREAM = "NO_VIDEO_STREAM"
    AUDIO_UNDECODABLE = "AUDIO_UNDECODABLE"
    AUDIO_CUT = "AUDIO_CUT"
    TOO_SMALL = "TOO_SMALL"


class HalfsecondError(Exception):
    """Base of the errors this project raises on purpose.

    ``code`` is the wire code; ``retryable`` says whether the same input may succeed later without being changed.
    """

    def __init__(self, code: ErrorCode, message: str, *, retryable: bool = False) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class MediaError(HalfsecondError):
    """Raised when a file cannot be analysed: missing, hostile, damaged, encrypted, too large."""


class StageError(HalfsecondError):
    """Raised when one stage cannot give its answer. The clip's other stages go on."""


class DeadlineExceeded(StageError):
    """Raised when work is given up because its deadline has passed."""

    def __init__(self, message: str = "the deadline has passed") -> None:
        super().__init__(ErrorCode.DEADLINE_EXCEEDED, message, retryable=True)


class Overloaded(StageError):
    """Raised at the door when work could not end before its deadline. ``retry_after_s``: when it may."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(ErrorCode.OVERLOADED, message, retryable=True)
        self.retry_after_s = retry_after_s


class ConfigurationError(HalfsecondError):
    """Raised at start-up when settings or weights are missing or wrong. The message says what to do."""

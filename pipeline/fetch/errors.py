"""What can go wrong on the way to a clip.

Messages say nothing that the producer did not say first: no address a name led to, no path, no server's words. They end
in results and dead letters, which others read.
"""

from schemas.errors import ErrorCode, MediaError


class FetchError(MediaError):
    """Raised when a clip's bytes cannot be had. ``retryable``: the same reference may work later."""


def refused(message: str) -> FetchError:
    """Return the error for a reference that must not be followed. Permanent."""
    return FetchError(ErrorCode.FETCH_REFUSED, message)


def failed(message: str, *, retryable: bool) -> FetchError:
    """Return the error for a store that did not hand over the bytes."""
    return FetchError(ErrorCode.FETCH_FAILED, message, retryable=retryable)


def timed_out() -> FetchError:
    """Return the error for bytes that did not come in time. Retryable."""
    return FetchError(ErrorCode.FETCH_TIMED_OUT, "the clip did not arrive in time", retryable=True)


def not_found() -> FetchError:
    """Return the error for a clip that is not where it should be. Permanent."""
    return FetchError(ErrorCode.NOT_FOUND, "there is no clip at this reference")


def not_as_promised(message: str) -> FetchError:
    """Return the error for bytes that are not those the job speaks of. Permanent."""
    return FetchError(ErrorCode.CHECKSUM_MISMATCH, message)


def too_large(max_bytes: int) -> FetchError:
    """Return the error for a clip of more than ``max_bytes``. Permanent."""
    return FetchError(ErrorCode.TOO_LARGE, f"more than the allowed {max_bytes} bytes")

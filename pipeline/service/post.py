"""Where parcels go: ``outbox.py`` for at least once, ``transactions.py`` for exactly once."""

from typing import Protocol

from pipeline.service.outbox import Parcel


class Post(Protocol):
    """Stores parcels on the bus, and settles their records then. ``put`` may be called from any thread."""

    @property
    def unstored(self) -> int:
        """What is not known to be stored."""
        ...

    def start(self) -> None:
        """Begin to send."""
        ...

    def put(self, parcel: Parcel) -> None:
        """Send all of ``parcel``, however long the broker is away."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Wait until everything is stored, then end. False when that took longer: it will be answered again."""
        ...

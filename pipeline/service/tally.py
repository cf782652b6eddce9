"""How much is still to be stored. Thread-safe."""

import threading


class Tally:
    """A count that several threads change and one waits for to become nothing."""

    def __init__(self) -> None:
        self._count = 0
        self._given_up = False
        self._changed = threading.Condition()

    @property
    def count(self) -> int:
        """What is left now."""
        with self._changed:
            return self._count

    def add(self, more: int) -> None:
        """Count ``more``, or fewer when negative."""
        with self._changed:
            self._count += more
            self._changed.notify_all()

    def give_up(self) -> None:
        """Let nobody wait any more: nothing will come of what is left."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def wait_for_none(self, timeout_s: float) -> bool:
        """Wait until nothing is left, or nothing will come of it. Returns whether nothing is left."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0 or self._given_up, timeout=timeout_s)
            return self._count == 0

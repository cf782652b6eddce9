"""When a record can have come at the earliest, from where its partition was seen to end. Pure.

A partition only grows. So what lies at or beyond an end came after that end was seen, whatever happened in between:
pauses, rebalances, a process that was frozen. "Came" means that it could be read: replicas may have it a moment before.
"""

from typing import NamedTuple

from pipeline.bus.base import Partition

KEPT = 8
"""Ends of each partition. A record is asked about when the next fetch or two may have been answered already; after a
pause, ends older than that bound the rest of what has gathered."""


class _End(NamedTuple):
    offset: int
    seen_s: float


class PartitionEnds:
    """Remembers ends. One thread notes them, another one may ask meanwhile. ``seen_s``: of ``time.monotonic``."""

    def __init__(self) -> None:
        self._ends: dict[Partition, tuple[_End, ...]] = {}

    def note(self, partition: Partition, end: int, *, seen_s: float) -> None:
        """Note that ``partition`` held nothing from offset ``end`` on at ``seen_s``, or later still."""
        known = self._ends.get(partition, ())
        if known and end < known[-1].offset:
            return  # a new leader that has not heard yet how far the old one was: it holds more than it tells
        earlier = known[:-1] if known and end == known[-1].offset else known
        self._ends[partition] = (*earlier, _End(end, seen_s))[-KEPT:]

    def note_unchanged(self, partition: Partition, *, seen_s: float) -> None:
        """Note that ``partition`` still ended where it did at ``seen_s``. If it is not known where: nothing happens."""
        if known := self._ends.get(partition):
            self.note(partition, known[-1].offset, seen_s=seen_s)

    def came_after_s(self, partition: Partition, offset: int) -> float | None:
        """Return a time before the record at ``offset`` came, the latest that is known; None when none is."""
        known = self._ends.get(partition, ())
        return next((end.seen_s for end in reversed(known) if end.offset <= offset), None)

"""Which job goes next. Pure and synchronous.

Realtime always goes before backfill; within a lane the earliest deadline first, then the smaller priority number, then
arrival. Nothing is dropped here: who is too late is found by whoever takes it.
"""

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from schemas.job import Lane

Item = TypeVar("Item")


@dataclass(order=True, slots=True)
class _Place(Generic[Item]):
    deadline_s: float
    priority: int
    arrival: int
    item: Item = field(compare=False)


class LaneQueue(Generic[Item]):
    """Jobs that wait, lane by lane."""

    def __init__(self) -> None:
        self._waiting: dict[Lane, list[_Place[Item]]] = {lane: [] for lane in Lane}
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def waiting(self, lane: Lane) -> int:
        """Jobs of one lane."""
        return len(self._waiting[lane])

    def push(self, item: Item, *, lane: Lane, deadline_s: float, priority: int) -> None:
        """Add a job. ``deadline_s``: absolute, infinite for none."""
        heapq.heappush(self._waiting[lane], _Place(deadline_s, priority, next(self._arrivals), item))

    def pop(self, *lanes: Lane) -> Item | None:
        """Take the job that goes next out of ``lanes``, given best first; None when they are empty."""
        for lane in lanes:
            if self._waiting[lane]:
                return heapq.heappop(self._waiting[lane]).item
        return None

    def drain(self) -> Iterator[Item]:
        """Take all out, best first."""
        for lane in Lane:
            while (item := self.pop(lane)) is not None:
                yield item

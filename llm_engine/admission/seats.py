"""Who gets the next seat of an engine. Pure and synchronous; ``gate.py`` adds the waiting.

An engine runs so many requests at once, and a backend may not look at its waiting ones before one of those is done. So
some seats are kept for realtime requests, and who waits for the others waits here, in order.
"""

import bisect
import itertools
import math
from dataclasses import dataclass, field

from llm_engine.base import PriorityClass
from schemas.errors import ConfigurationError, ErrorCode


@dataclass(order=True, slots=True)
class Ticket:
    """A place in the queue, or a seat from ``granted_at_s`` on. Sorts by deadline, then arrival."""

    deadline_s: float
    number: int
    priority: PriorityClass = field(compare=False)
    granted_at_s: float | None = field(default=None, compare=False)

    @property
    def granted(self) -> bool:
        """Whether the ticket has a seat."""
        return self.granted_at_s is not None


class SeatQueue:
    """``seats`` seats, ``reserved`` of them for REALTIME. Every granted ticket must be released once.

    REALTIME may hold every seat; INTERACTIVE and BACKFILL together all but half of the reserved ones (rounded in
    favour of REALTIME); BACKFILL all but the reserved ones.

    The order is class, then absolute deadline, then arrival, with one exception: a lower class that waited ``ageing_s``
    without being given a seat is *owed* the next one that it may hold, and its longest waiting ticket gets it. So the
    higher classes lose at most one seat in ``ageing_s`` to each lower class, and the n-th oldest ticket of a class
    waits at most n x (``ageing_s`` + 2 h), where h is the longest that anybody holds a seat: within h one that the
    class may hold comes free, and the other owed class may be before it.
    """

    def __init__(self, *, seats: int, reserved: int, ageing_s: float) -> None:
        """Raise ``ConfigurationError`` unless at least one seat is not reserved."""
        if not 0 <= reserved < seats:
            raise ConfigurationError(ErrorCode.BAD_SETTING, f"of {seats} seats {reserved} cannot be reserved")
        self._limits = {
            PriorityClass.REALTIME: seats,
            PriorityClass.INTERACTIVE: seats - math.ceil(reserved / 2),
            PriorityClass.BACKFILL: seats - reserved,
        }
        self._ageing_s = ageing_s
        self._held = dict.fromkeys(PriorityClass, 0)
        self._waiting: dict[PriorityClass, list[Ticket]] = {priority: [] for priority in PriorityClass}
        self._passed_over_since_s: dict[PriorityClass, float] = {}
        self._numbers = itertools.count()

    @property
    def waiting(self) -> int:
        """How many tickets wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def held(self) -> int:
        """How many seats are taken."""
        return sum(self._held.values())

    def limit(self, priority: PriorityClass) -> int:
        """Return the most seats that ``priority`` and the classes below it may hold together."""
        return self._limits[priority]

    def has_room(self, priority: PriorityClass) -> bool:
        """Whether a request of this class would get a seat now."""
        return all(self._held_from(above) < self._limits[above] for above in PriorityClass if above <= priority)

    def ahead(self, *, priority: PriorityClass, deadline_s: float) -> int:
        """Return how many of those that wait would go before a ticket that came now."""
        above = sum(len(self._waiting[other]) for other in PriorityClass if other < priority)
        return above + bisect.bisect_right(self._waiting[priority], deadline_s, key=lambda ticket: ticket.deadline_s)

    def request(self, *, priority: PriorityClass, deadline_s: float, now_s: float) -> Ticket:
        """Return a ticket, already granted when there is room."""
        ticket = Ticket(deadline_s, next(self._numbers), priority)
        if self.has_room(priority):  # then nobody of this class waits
            self._grant(ticket, now_s)
        else:
            bisect.insort(self._waiting[priority], ticket)
            self._passed_over_since_s.setdefault(priority, now_s)
        return ticket

    def release(self, ticket: Ticket, *, now_s: float) -> Ticket | None:
        """Give the seat of ``ticket`` back; return the ticket that was granted one for it, if any."""
        if not ticket.granted:
            raise ValueError("a ticket without a seat cannot be released")
        ticket.granted_at_s = None
        self._held[ticket.priority] -= 1
        successor = self._next(now_s)
        if successor is not None:
            self._take_from_queue(successor)
            self._grant(successor, now_s)
        return successor

    def withdraw(self, ticket: Ticket) -> None:
        """Give up waiting. Not for a granted ticket: that one is released."""
        self._take_from_queue(ticket)

    def _next(self, now_s: float) -> Ticket | None:
        for priority in self._owed(now_s):
            if self.has_room(priority):
                return min(self._waiting[priority], key=lambda ticket: ticket.number)
        return next((t[0] for priority, t in self._waiting.items() if t and self.has_room(priority)), None)

    def _owed(self, now_s: float) -> list[PriorityClass]:
        """Return the lower classes that waited long enough, the longest waiting first."""
        since_s = self._passed_over_since_s
        owed = [p for p, s in since_s.items() if p > PriorityClass.REALTIME and now_s - s >= self._ageing_s]
        return sorted(owed, key=since_s.__getitem__)

    def _grant(self, ticket: Ticket, now_s: float) -> None:
        ticket.granted_at_s = now_s
        self._held[ticket.priority] += 1
        if ticket.priority in self._passed_over_since_s:
            self._passed_over_since_s[ticket.priority] = now_s

    def _take_from_queue(self, ticket: Ticket) -> None:
        queue = self._waiting[ticket.priority]
        index = bisect.bisect_left(queue, ticket)
        if index == len(queue) or queue[index] is not ticket:
            raise ValueError("a ticket that does not wait cannot be withdrawn")
        del queue[index]
        if not queue:
            del self._passed_over_since_s[ticket.priority]

    def _held_from(self, priority: PriorityClass) -> int:
        return sum(count for other, count in self._held.items() if other >= priority)

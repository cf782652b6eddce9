"""Who gets the next CPU slot. Pure and synchronous; ``slots.py`` adds the waiting."""

import heapq
import itertools
from dataclasses import dataclass, field
from enum import IntEnum


class Rank(IntEnum):
    """Which work goes first inside one clip: the chain that ends last when it starts late."""

    CHAIN = 0  # sound, speech, text: strictly one after another
    DECODE = 1  # pictures wait for it
    HEAVY = 2  # long units first, so that the last one to end is a short one
    LIGHT = 3
    EXTRA = 4  # what a clip can do without


@dataclass(order=True, slots=True)
class Ticket:
    """A place in the queue, or a slot once ``granted``.

    Who has a deadline goes before who has none (backfill waits for realtime, always); then by rank, deadline, arrival.
    """

    patient: bool
    rank: Rank
    deadline_s: float
    arrival: int
    granted: bool = field(default=False, compare=False)
    withdrawn: bool = field(default=False, compare=False)


class SlotQueue:
    """``count`` slots, handed out in ticket order. Every granted ticket must be released once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.free = count
        self._waiting: list[Ticket] = []
        self._arrivals = itertools.count()

    @property
    def waiting(self) -> int:
        """How many tickets wait."""
        return sum(not ticket.withdrawn for ticket in self._waiting)

    def request(self, *, rank: Rank, deadline_s: float) -> Ticket:
        """Return a ticket, already granted when a slot is free."""
        ticket = Ticket(deadline_s == float("inf"), rank, deadline_s, next(self._arrivals))
        if self.free > 0:
            self.free -= 1
            ticket.granted = True
        else:
            heapq.heappush(self._waiting, ticket)
        return ticket

    def release(self) -> Ticket | None:
        """Give one slot back; return the ticket that has it now, if any waits."""
        while self._waiting:
            ticket = heapq.heappop(self._waiting)
            if not ticket.withdrawn:
                ticket.granted = True  # the slot changes hands without becoming free
                return ticket
        self.free += 1
        return None

    def withdraw(self, ticket: Ticket) -> None:
        """Give up waiting. Not for a granted ticket: that one is released."""
        ticket.withdrawn = True

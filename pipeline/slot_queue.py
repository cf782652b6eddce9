"""Who gets the next CPU slot. Pure and synchronous; ``slots.py`` adds the waiting."""

import heapq
import itertools
from dataclasses import dataclass, field
from enum import IntEnum


class Rank(IntEnum):
    """Which work goes first inside one clip: the chain that ends last when it starts late."""

    FIRST = 0  # what no plan can be made without: a moment each, and everything else waits for it
    CHAIN = 1  # speech, then text: strictly one after another
    DECODE = 2  # pictures wait for it
    HEAVY = 3  # long units first, so that the last one to end is a short one
    LIGHT = 4
    MORE = 5  # looks beyond the cheapest plan: they make an answer better, not whole
    EXTRA = 6  # what a clip can do without


class Tier(IntEnum):
    """Which work goes first among all clips."""

    FIRST = 0
    NEEDED = 1
    MORE = 2
    EXTRA = 3


_TIERS = {Rank.FIRST: Tier.FIRST, Rank.MORE: Tier.MORE, Rank.EXTRA: Tier.EXTRA}


@dataclass(order=True, slots=True)
class Ticket:
    """A place in the queue, or a slot once ``granted``.

    Who has a deadline goes before who has none (backfill waits for realtime, always); what answers need before what
    only makes them better; then the earliest deadline, so that when not all can be whole the first ones are; then rank,
    then arrival.
    """

    patient: bool
    tier: Tier
    deadline_s: float
    rank: Rank
    arrival: int
    granted: bool = field(default=False, compare=False)
    withdrawn: bool = field(default=False, compare=False)


class SlotQueue:
    """``count`` slots, handed out in ticket order. Every granted ticket must be released once.

    Where there are several, who has no deadline never gets the last one: a unit cannot be interrupted, and whoever
    comes with a deadline shall not wait for the end of such a one.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.free = count
        self._for_patient = max(1, count - 1)
        self._waiting: dict[bool, list[Ticket]] = {False: [], True: []}
        self._arrivals = itertools.count()

    @property
    def waiting(self) -> int:
        """How many tickets wait."""
        return sum(not ticket.withdrawn for queue in self._waiting.values() for ticket in queue)

    def request(self, *, rank: Rank, deadline_s: float) -> Ticket:
        """Return a ticket, already granted when there is a slot for it. ``deadline_s``: infinite for none."""
        tier = _TIERS.get(rank, Tier.NEEDED)
        ticket = Ticket(deadline_s == float("inf"), tier, deadline_s, rank, next(self._arrivals))
        if self._has_room(patient=ticket.patient):
            self._grant(ticket)
        else:
            heapq.heappush(self._waiting[ticket.patient], ticket)
        return ticket

    def release(self, ticket: Ticket) -> Ticket | None:
        """Give the slot of ``ticket`` back; return the one that has it now, if any may."""
        self.free += 1
        self._for_patient += ticket.patient
        for patient, queue in self._waiting.items():
            while queue and self._has_room(patient=patient):
                following = heapq.heappop(queue)
                if not following.withdrawn:
                    self._grant(following)
                    return following
        return None

    def withdraw(self, ticket: Ticket) -> None:
        """Give up waiting. Not for a granted ticket: that one is released."""
        ticket.withdrawn = True

    def _has_room(self, *, patient: bool) -> bool:
        return self.free > 0 and (not patient or self._for_patient > 0)

    def _grant(self, ticket: Ticket) -> None:
        self.free -= 1
        self._for_patient -= ticket.patient
        ticket.granted = True

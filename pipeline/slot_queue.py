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
    LATER = 5  # speech after its first words, in a clip of which not everything is expected to fit
    LAST = 6  # the dearest look of such a clip
    MORE = 7  # looks beyond the cheapest plan: they make an answer better, not whole
    EXTRA = 8  # what a clip can do without


class Tier(IntEnum):
    """Which work goes first among all clips."""

    FIRST = 0
    NEEDED = 1
    MORE = 2
    EXTRA = 3


_TIERS = {Rank.FIRST: Tier.FIRST, Rank.MORE: Tier.MORE, Rank.EXTRA: Tier.EXTRA}


class Standing(IntEnum):
    """Who may have a slot."""

    HURRIED = 0  # whoever has a deadline, at once
    EXTRA = 1  # a step of the language model: while fewer jobs with a deadline are there than slots
    PATIENT = 2  # whoever has no deadline: while no such job is there, and perhaps not on every slot


@dataclass(order=True, slots=True)
class Ticket:
    """A place in the queue, or a slot once ``granted``.

    Who has a deadline goes before who has none (backfill waits for realtime, always); what answers need before what
    only makes them better; then the earliest deadline, so that when not all can be whole the first ones are; then rank;
    then ``turn``, the clip's own order among units of one rank; then arrival.
    """

    standing: Standing
    tier: Tier
    deadline_s: float
    rank: Rank
    turn: int
    arrival: int
    granted: bool = field(default=False, compare=False)
    withdrawn: bool = field(default=False, compare=False)


class SlotQueue:
    """``count`` slots, handed out in ticket order. Every granted ticket must be released once.

    A unit cannot be interrupted, and whoever comes with a deadline shall not wait for the end of one that is not
    urgent. So those get slots only when there is room (``Standing``) beside the jobs with a deadline that are there
    (``enter`` and ``leave``).
    """

    def __init__(self, count: int, *, for_patient: int | None = None) -> None:
        """``for_patient``: slots that those without a deadline may hold at once; None: all of them."""
        self.count = count
        self.free = count
        self._for_patient = count if for_patient is None else for_patient
        self._hurried_jobs = 0
        self._waiting: dict[Standing, list[Ticket]] = {standing: [] for standing in Standing}
        self._arrivals = itertools.count()

    @property
    def waiting(self) -> int:
        """How many tickets wait."""
        return sum(not ticket.withdrawn for queue in self._waiting.values() for ticket in queue)

    def enter(self) -> None:
        """Note that a job with a deadline has come."""
        self._hurried_jobs += 1

    def leave(self) -> list[Ticket]:
        """Note that it has ended; return the tickets that have a slot now."""
        self._hurried_jobs -= 1
        return self._hand_out()

    def request(self, *, rank: Rank, deadline_s: float, turn: int = 0) -> Ticket:
        """Return a ticket, already granted when there is a slot for it. ``deadline_s``: infinite for none.

        ``EXTRA`` is never patient, whatever its deadline: a step of the language model may serve jobs of both kinds.
        """
        tier = _TIERS.get(rank, Tier.NEEDED)
        ticket = Ticket(_standing(tier, deadline_s), tier, deadline_s, rank, turn, next(self._arrivals))
        if self._has_room(ticket.standing):
            self._grant(ticket)
        else:
            heapq.heappush(self._waiting[ticket.standing], ticket)
        return ticket

    def release(self, ticket: Ticket) -> list[Ticket]:
        """Give the slot of ``ticket`` back; return the tickets that have a slot now."""
        self.free += 1
        self._for_patient += ticket.standing is Standing.PATIENT
        return self._hand_out()

    def withdraw(self, ticket: Ticket) -> None:
        """Give up waiting. Not for a granted ticket: that one is released."""
        ticket.withdrawn = True

    def _has_room(self, standing: Standing) -> bool:
        match standing:
            case Standing.HURRIED:
                return self.free > 0
            case Standing.EXTRA:
                return self.free > 0 and self._hurried_jobs < max(2, self.count)
            case Standing.PATIENT:
                return self.free > 0 and self._for_patient > 0 and not self._hurried_jobs

    def _hand_out(self) -> list[Ticket]:
        granted = []
        for standing, queue in self._waiting.items():
            while queue and self._has_room(standing):
                ticket = heapq.heappop(queue)
                if not ticket.withdrawn:
                    self._grant(ticket)
                    granted.append(ticket)
        return granted

    def _grant(self, ticket: Ticket) -> None:
        self.free -= 1
        self._for_patient -= ticket.standing is Standing.PATIENT
        ticket.granted = True


def _standing(tier: Tier, deadline_s: float) -> Standing:
    if tier is Tier.EXTRA:
        return Standing.EXTRA
    return Standing.PATIENT if deadline_s == float("inf") else Standing.HURRIED

"""The slot queue under any sequence of requests, releases, withdrawals, and of jobs that come and go."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline.slot_queue import Rank, SlotQueue, Ticket

NEVER_S = float("inf")


def tier(ticket: Ticket) -> int:
    """Return which of the four it is: what every plan waits for, what is needed, what makes better, what is extra."""
    return {Rank.FIRST: 0, Rank.MORE: 2, Rank.EXTRA: 3}.get(ticket.rank, 1)


def is_extra(ticket: Ticket) -> bool:
    return ticket.rank is Rank.EXTRA


def is_patient(ticket: Ticket) -> bool:
    return ticket.deadline_s == NEVER_S and not is_extra(ticket)


def is_hurried(ticket: Ticket) -> bool:
    return not is_patient(ticket) and not is_extra(ticket)


def place(ticket: Ticket) -> tuple[bool, int, float, Rank, int]:
    return is_patient(ticket), tier(ticket), ticket.deadline_s, ticket.rank, ticket.arrival


class SlotQueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.holding: list[Ticket] = []
        self.waiting: list[Ticket] = []
        self.hurried_jobs = 0

    @initialize(count=st.integers(1, 4), data=st.data())
    def open(self, count: int, data) -> None:
        self.count = count
        limit = data.draw(st.none() | st.integers(1, count))
        self.queue = SlotQueue(count, for_patient=limit)
        self.for_patient = limit or count

    @rule(rank=st.sampled_from(Rank), deadline_s=st.sampled_from([0, 1, 2, 5, NEVER_S]))
    def request(self, rank: Rank, deadline_s: float) -> None:
        ticket = self.queue.request(rank=rank, deadline_s=deadline_s)
        self.waiting.append(ticket)
        self.check_handed_out([ticket] if ticket.granted else [])

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def release(self, data) -> None:
        ticket = data.draw(st.sampled_from(self.holding))
        self.holding.remove(ticket)
        self.check_handed_out(self.queue.release(ticket))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data) -> None:
        ticket = data.draw(st.sampled_from(self.waiting))
        self.queue.withdraw(ticket)
        self.waiting.remove(ticket)

    @rule()
    def enter(self) -> None:
        self.queue.enter()
        self.hurried_jobs += 1

    @precondition(lambda self: self.hurried_jobs)
    @rule()
    def leave(self) -> None:
        self.hurried_jobs -= 1
        self.check_handed_out(self.queue.leave())

    def may_have_one(self, ticket: Ticket) -> bool:
        if len(self.holding) == self.count:
            return False
        if is_hurried(ticket):
            return True
        if is_extra(ticket):
            return self.hurried_jobs < max(2, self.count)
        return not self.hurried_jobs and sum(map(is_patient, self.holding)) < self.for_patient

    def check_handed_out(self, granted: list[Ticket]) -> None:
        """Assert that all who may have a slot now have got one, in their order, and nobody else."""
        expected = []
        for ticket in sorted(self.waiting, key=place):
            if self.may_have_one(ticket):
                expected.append(ticket)
                self.waiting.remove(ticket)
                self.holding.append(ticket)
        assert [ticket.arrival for ticket in granted] == [ticket.arrival for ticket in expected]

    @invariant()
    def no_slot_is_lost_or_made_up(self) -> None:
        assert self.queue.free + len(self.holding) == self.count
        assert self.queue.waiting == len(self.waiting)
        assert all(ticket.granted for ticket in self.holding)
        assert not any(ticket.granted for ticket in self.waiting)

    @invariant()
    def nobody_hurried_waits_beside_a_free_slot(self) -> None:
        assert not self.queue.free or not any(map(is_hurried, self.waiting))

    @invariant()
    def the_patient_never_hold_more_than_they_may(self) -> None:
        assert sum(map(is_patient, self.holding)) <= self.for_patient


TestSlotQueue = SlotQueueMachine.TestCase

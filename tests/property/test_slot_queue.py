"""The slot queue under any sequence of requests, releases and withdrawals."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pipeline.slot_queue import Rank, SlotQueue, Ticket

SLOTS = 2


class SlotQueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = SlotQueue(SLOTS)
        self.holding: list[Ticket] = []
        self.waiting: list[Ticket] = []

    @rule(rank=st.sampled_from(Rank), deadline_s=st.sampled_from([0, 1, 2, 5, float("inf")]))
    def request(self, rank: Rank, deadline_s: float) -> None:
        ticket = self.queue.request(rank=rank, deadline_s=deadline_s)
        (self.holding if ticket.granted else self.waiting).append(ticket)

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def release(self, data) -> None:
        self.holding.remove(data.draw(st.sampled_from(self.holding)))
        granted = self.queue.release()
        if self.waiting:
            assert granted is min(self.waiting), "the first in order gets the slot"
            self.waiting.remove(granted)
            self.holding.append(granted)
        else:
            assert granted is None

    @invariant()
    def who_has_no_deadline_comes_last(self) -> None:
        hurried = [ticket for ticket in self.waiting if ticket.deadline_s < float("inf")]
        if hurried and len(hurried) < len(self.waiting):
            assert max(hurried) < min(ticket for ticket in self.waiting if ticket not in hurried)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data) -> None:
        ticket = data.draw(st.sampled_from(self.waiting))
        self.queue.withdraw(ticket)
        self.waiting.remove(ticket)

    @invariant()
    def no_slot_is_lost_or_made_up(self) -> None:
        assert self.queue.free + len(self.holding) == SLOTS
        assert self.queue.waiting == len(self.waiting)

    @invariant()
    def nobody_waits_beside_a_free_slot(self) -> None:
        assert not (self.waiting and self.queue.free)


TestSlotQueue = SlotQueueMachine.TestCase

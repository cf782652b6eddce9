"""The seats under any sequence of requests, releases and withdrawals, and under realtime that never pauses."""

import heapq
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from llm_engine.admission.seats import SeatQueue, Ticket
from llm_engine.base import PriorityClass

REALTIME, INTERACTIVE, BACKFILL = PriorityClass
AGEING_S = 10


class SeatMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.holding: list[Ticket] = []
        self.waiting: list[Ticket] = []
        self.last_turn_s: dict[PriorityClass, float] = {}

    @initialize(seats=st.integers(1, 6), data=st.data())
    def open(self, seats: int, data) -> None:
        self.seats = seats
        self.reserved = data.draw(st.integers(0, seats - 1))
        self.queue = SeatQueue(seats=seats, reserved=self.reserved, ageing_s=AGEING_S)

    @rule(priority=st.sampled_from(PriorityClass), deadline_s=st.sampled_from([1.0, 2.0, 3.0, float("inf")]))
    def request(self, priority: PriorityClass, deadline_s: float) -> None:
        ticket = self.queue.request(priority=priority, deadline_s=deadline_s, now_s=self.now_s)
        if ticket.granted:
            self.holding.append(ticket)
        else:
            if not any(other.priority is priority for other in self.waiting):
                self.last_turn_s[priority] = self.now_s
            self.waiting.append(ticket)

    @rule(seconds=st.integers(1, AGEING_S))
    def pass_time(self, seconds: int) -> None:
        self.now_s += seconds

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def release(self, data) -> None:
        ticket = data.draw(st.sampled_from(self.holding))
        self.holding.remove(ticket)
        able = [waiting for waiting in self.waiting if self.fits(waiting.priority)]
        successor = self.queue.release(ticket, now_s=self.now_s)
        if not able:
            assert successor is None
            return
        assert successor is not None
        owed = self.now_s - self.last_turn_s[successor.priority] >= AGEING_S and successor.priority is not REALTIME
        if owed:
            assert successor.number == min(w.number for w in able if w.priority is successor.priority)
        else:
            assert successor is min(able, key=lambda w: (w.priority, w.deadline_s, w.number)), "no inversion"
        self.last_turn_s[successor.priority] = self.now_s
        self.waiting.remove(successor)
        self.holding.append(successor)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data) -> None:
        ticket = data.draw(st.sampled_from(self.waiting))
        self.queue.withdraw(ticket)
        self.waiting.remove(ticket)

    @invariant()
    def no_seat_is_lost_or_doubled(self) -> None:
        if self.is_open:
            assert self.queue.held == len(self.holding) <= self.seats
            assert self.queue.waiting == len(self.waiting)
            assert all(ticket.granted for ticket in self.holding)
            assert not any(ticket.granted for ticket in self.waiting)

    @invariant()
    def lower_classes_leave_the_reserved_seats_free(self) -> None:
        if self.is_open:
            assert self.held_from(BACKFILL) <= self.seats - self.reserved
            assert self.held_from(INTERACTIVE) <= self.seats - (self.reserved + 1) // 2

    @invariant()
    def nobody_waits_beside_a_seat_that_they_may_have(self) -> None:
        if self.is_open:
            assert not any(self.fits(ticket.priority) for ticket in self.waiting)
            assert all(self.queue.has_room(priority) == self.fits(priority) for priority in PriorityClass)

    @property
    def is_open(self) -> bool:
        return hasattr(self, "queue")

    def held_from(self, priority: PriorityClass) -> int:
        return sum(ticket.priority >= priority for ticket in self.holding)

    def fits(self, priority: PriorityClass) -> bool:
        limits = {
            REALTIME: self.seats,
            INTERACTIVE: self.seats - (self.reserved + 1) // 2,
            BACKFILL: self.seats - self.reserved,
        }
        return all(self.held_from(above) < limits[above] for above in PriorityClass if above <= priority)


TestSeats = SeatMachine.TestCase


@settings(max_examples=60, deadline=None)
@given(
    seats=st.integers(1, 5),
    data=st.data(),
    holds_s=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    lower=st.lists(
        st.tuples(st.sampled_from([INTERACTIVE, BACKFILL]), st.integers(0, 300), st.sampled_from([1.0, float("inf")])),
        max_size=12,
    ),
)
def test_every_lower_ticket_has_its_seat_within_the_bound_though_realtime_never_pauses(seats, data, holds_s, lower):
    """Two realtime tickets always wait, with the earliest deadlines; seats are held for ``holds_s`` in turn."""
    reserved = data.draw(st.integers(0, seats - 1))
    queue = SeatQueue(seats=seats, reserved=reserved, ageing_s=AGEING_S)
    longest_s = max(holds_s)
    holds = (holds_s[i % len(holds_s)] for i in count())
    leaving: list[tuple[float, int, Ticket]] = []
    asked: list[tuple[float, Ticket]] = []
    seated_at_s: dict[int, float] = {}

    def seat(ticket: Ticket, now_s: float) -> None:
        seated_at_s[ticket.number] = now_s
        heapq.heappush(leaving, (now_s + next(holds), ticket.number, ticket))

    def ask(priority: PriorityClass, now_s: float, deadline_s: float) -> Ticket:
        ticket = queue.request(priority=priority, deadline_s=deadline_s, now_s=now_s)
        if ticket.granted:
            seat(ticket, now_s)
        return ticket

    for _ in range(seats + 2):
        ask(REALTIME, 0, 0)
    arrivals = sorted(lower, key=lambda arrival: arrival[1])
    end_s = 300 + (len(lower) + 1) * (AGEING_S + 2 * longest_s)
    while leaving and leaving[0][0] <= end_s:
        now_s, _, ticket = heapq.heappop(leaving)
        while arrivals and arrivals[0][1] <= now_s:
            priority, at_s, deadline_s = arrivals.pop(0)
            asked.append((at_s, ask(priority, at_s, deadline_s)))
        successor = queue.release(ticket, now_s=now_s)
        assert successor is not None, "realtime waits, so that no seat stays free"
        seat(successor, now_s)
        if successor.priority is REALTIME:
            ask(REALTIME, now_s, 0)

    for at_s, ticket in asked:
        older = sum(other.priority is ticket.priority and other.number < ticket.number for _, other in asked)
        assert seated_at_s[ticket.number] - at_s <= (older + 1) * (AGEING_S + 2 * longest_s)

"""Who may sit where, and in which order those go who wait."""

import pytest

from llm_engine.admission.seats import SeatQueue, Ticket
from llm_engine.base import PriorityClass
from schemas.errors import ConfigurationError

REALTIME, INTERACTIVE, BACKFILL = PriorityClass


class Room:
    """A queue and a clock that stands still unless told."""

    def __init__(self, *, seats: int, reserved: int = 0, ageing_s: float = 1.0) -> None:
        self.queue = SeatQueue(seats=seats, reserved=reserved, ageing_s=ageing_s)
        self.now_s = 0.0

    def ask(self, priority: PriorityClass, deadline_s: float = float("inf")) -> Ticket:
        return self.queue.request(priority=priority, deadline_s=deadline_s, now_s=self.now_s)

    def release(self, ticket: Ticket) -> Ticket | None:
        return self.queue.release(ticket, now_s=self.now_s)


def test_a_house_full_of_backfill_has_seats_for_realtime():
    room = Room(seats=4, reserved=2)
    backfill = [room.ask(BACKFILL) for _ in range(10)]
    assert sum(ticket.granted for ticket in backfill) == 2
    assert [room.ask(REALTIME).granted for _ in range(3)] == [True, True, False]


def test_interactive_leaves_half_of_the_reserved_seats_to_realtime():
    room = Room(seats=8, reserved=4)
    assert sum(room.ask(INTERACTIVE).granted for _ in range(10)) == 6


def test_the_only_reserved_seat_is_for_realtime_alone():
    room = Room(seats=2, reserved=1)
    assert [room.ask(INTERACTIVE).granted for _ in range(2)] == [True, False]
    assert room.ask(REALTIME).granted


def test_the_classes_below_count_together():
    room = Room(seats=4, reserved=2)
    assert [room.ask(INTERACTIVE).granted for _ in range(2)] == [True, True]
    assert room.ask(BACKFILL).granted
    assert not room.ask(BACKFILL).granted
    assert not room.ask(INTERACTIVE).granted


def test_realtime_may_take_every_seat():
    room = Room(seats=4, reserved=1)
    assert all(room.ask(REALTIME).granted for _ in range(4))


def test_class_goes_before_deadline_and_deadline_before_arrival():
    room = Room(seats=1)
    holder = room.ask(REALTIME)
    waiting = [room.ask(BACKFILL, 1), room.ask(REALTIME, 9), room.ask(REALTIME, 5), room.ask(REALTIME, 5)]
    order = []
    while (successor := room.release(holder)) is not None:
        holder = successor
        order.append(waiting.index(successor))
    assert order == [2, 3, 1, 0]


def test_who_came_with_no_deadline_goes_last_in_the_class():
    room = Room(seats=1)
    holder = room.ask(REALTIME)
    room.ask(REALTIME)
    hurried = room.ask(REALTIME, 100)
    assert room.release(holder) is hurried


def test_a_class_passed_over_too_long_is_owed_one_seat():
    room = Room(seats=1, ageing_s=1)
    holder = room.ask(REALTIME)
    backfill = [room.ask(BACKFILL, 9), room.ask(BACKFILL, 1)]
    realtime = [room.ask(REALTIME) for _ in range(4)]
    room.now_s = 0.9
    assert room.release(holder) is realtime[0]
    room.now_s = 1.0
    assert room.release(realtime[0]) is backfill[0], "the longest waiting, not the most urgent"
    assert room.release(backfill[0]) is realtime[1], "one seat, not all"
    room.now_s = 2.0
    assert room.release(realtime[1]) is backfill[1]


def test_ageing_does_not_open_reserved_seats():
    room = Room(seats=2, reserved=1, ageing_s=1)
    first, second = room.ask(BACKFILL), room.ask(BACKFILL)
    realtime = room.ask(REALTIME)
    room.now_s = 10
    assert room.release(realtime) is None
    assert room.release(first) is second


def test_who_withdraws_is_passed_by():
    room = Room(seats=1)
    holder, second, third = (room.ask(REALTIME) for _ in range(3))
    room.queue.withdraw(second)
    assert room.release(holder) is third
    assert room.queue.waiting == 0


def test_those_ahead_are_the_higher_classes_and_the_earlier_deadlines():
    room = Room(seats=1)
    room.ask(REALTIME)
    for priority, deadline_s in ((REALTIME, 5.0), (REALTIME, 9.0), (BACKFILL, 1.0)):
        room.ask(priority, deadline_s)
    assert room.queue.ahead(priority=REALTIME, deadline_s=7) == 1
    assert room.queue.ahead(priority=INTERACTIVE, deadline_s=1) == 2
    assert room.queue.ahead(priority=BACKFILL, deadline_s=2) == 3


def test_a_seat_cannot_be_released_twice():
    room = Room(seats=1)
    ticket = room.ask(REALTIME)
    room.release(ticket)
    with pytest.raises(ValueError, match="without a seat"):
        room.release(ticket)


def test_who_has_a_seat_cannot_withdraw():
    room = Room(seats=1)
    with pytest.raises(ValueError, match="does not wait"):
        room.queue.withdraw(room.ask(REALTIME))


@pytest.mark.parametrize(("seats", "reserved"), [(0, 0), (2, 2), (2, -1)])
def test_not_every_seat_can_be_reserved(seats, reserved):
    with pytest.raises(ConfigurationError, match="BAD_SETTING"):
        SeatQueue(seats=seats, reserved=reserved, ageing_s=1)

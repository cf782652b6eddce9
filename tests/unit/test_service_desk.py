"""Every record ends in one parcel: a result and a line about it, and what its kind of end asks for."""

import logging
from collections.abc import Iterator, Sequence

import pytest

from pipeline.bus.base import Consumer, Outgoing, Partition
from pipeline.bus.errors import BusError
from pipeline.bus.memory import MemoryBus
from pipeline.ingest.message import BadMessage, Poison
from pipeline.service.admission import Verdict
from pipeline.service.desk import Desk
from pipeline.service.dispatcher import Order
from pipeline.service.ledger import Ledger
from pipeline.service.outbox import Outbox
from pipeline.service.post import Post
from pipeline.service.posting import LONGEST_S, MARGIN_S, START_S
from pipeline.service.transactions import TransactionalOutbox
from schemas.errors import ErrorCode
from schemas.job import Lane
from schemas.result import ErrorInfo, FusedResult, ResultStatus
from tests.unit import service_parts as parts
from tests.unit.service_parts import SENDER, begin_one, dead_letters, handed_over, memory_bus, results, sla_events

AWAY = ErrorInfo(code=ErrorCode.FETCH_FAILED, message="the store is away", retryable=True)
BAD = ErrorInfo(code=ErrorCode.NOT_MEDIA, message="no video", retryable=False)
FULL = Verdict(admitted=False, wait_s=2.0, retry_after_s=1.5)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Owner:
    """Enters into the ledger what a consumer is given."""

    def __init__(self, ledger: Ledger, consumer: Consumer) -> None:
        self._ledger = ledger
        self._consumer = consumer

    def assigned(self, partitions: Sequence[Partition]) -> None:
        self._ledger.assign(partitions, self._consumer.committed(partitions))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self._ledger.revoke(partitions)

    lost = revoked


class Office:
    """A desk whose outgoing messages land in a bus."""

    def __init__(self, *, hand_over: bool = True, exactly_once: bool = False) -> None:
        self.bus = memory_bus()
        self.ledger = Ledger()
        self.outbox: Post = self._transactions() if exactly_once else Outbox(self.bus.producer(), self.ledger)
        self.outbox.start()
        self.clock = Clock()
        self.desk = Desk(self.outbox, SENDER, hand_over=hand_over, clock=self.clock)

    def _transactions(self) -> TransactionalOutbox:
        consumer = self.bus.consumer(group_id="group", client_id="test")
        consumer.subscribe([SENDER.topics.realtime], Owner(self.ledger, consumer))
        consumer.poll(0)
        return TransactionalOutbox(
            lambda: self.bus.transactional_producer(transactional_id="slot"), consumer, self.ledger, died=print
        )

    def order(self, lane: Lane = Lane.REALTIME, *, age_s: float = 0.0) -> Order:
        asked = parts.job(lane=lane, budget_ms=500 if lane is Lane.REALTIME else None)
        claim = begin_one(self.ledger, parts.partition(lane))
        return parts.order(asked, clock=self.clock, claim=claim, age_s=age_s)

    def sent(self) -> MemoryBus:
        """Wait for everything to be stored; nothing is owed then."""
        assert self.outbox.close(5)
        assert self.ledger.open() == 0
        return self.bus


@pytest.fixture
def office() -> Iterator[Office]:
    office = Office()
    yield office
    office.outbox.close(1)


def test_an_answer_gives_one_result_and_one_line(office):
    order = office.order()
    office.clock.now_s += 0.1
    order.begun_s = office.clock()
    office.clock.now_s += 0.2
    office.desk.answered(order, parts.result(order.job))
    bus = office.sent()
    assert results(bus) == [parts.result(order.job)]
    [line] = sla_events(bus)
    assert (line.latency_ms, line.waited_ms, line.in_time) == (pytest.approx(300), pytest.approx(100), True)
    assert dead_letters(bus) == handed_over(bus) == []
    assert office.desk.counts == {(Lane.REALTIME, ResultStatus.COMPLETE): 1}
    assert (office.desk.late, office.desk.dead_letters) == (0, 0)


def test_the_time_before_the_record_was_read_counts(office):
    order = office.order(age_s=0.4)
    order.begun_s = office.clock()
    office.clock.now_s += 0.2
    office.desk.answered(order, parts.result(order.job))
    [line] = sla_events(office.sent())
    assert (line.latency_ms, line.waited_ms, line.in_time) == (pytest.approx(600), pytest.approx(400), False)
    assert office.desk.late == 1


def test_a_refused_job_is_rejected_with_a_hint_and_handed_over(office):
    order = office.order()
    office.desk.refused(order, FULL)
    bus = office.sent()
    [answer] = results(bus)
    assert answer.status is ResultStatus.REJECTED
    assert answer.error is not None
    assert (answer.error.code, answer.error.retryable) == (ErrorCode.OVERLOADED, True)
    assert "1.5 s" in answer.error.message
    [again] = handed_over(bus)
    assert (again.job_id, again.lane, again.budget_ms) == (order.job.job_id, Lane.BACKFILL, None)
    assert len(sla_events(bus)) == 1


def test_an_expired_job_says_so_and_is_handed_over(office):
    order = office.order()
    office.desk.expired(order)
    bus = office.sent()
    [answer] = results(bus)
    assert answer.status is ResultStatus.EXPIRED
    assert answer.error is not None
    assert answer.error.code is ErrorCode.DEADLINE_EXCEEDED
    assert len(handed_over(bus)) == len(sla_events(bus)) == 1
    assert office.desk.counts == {(Lane.REALTIME, ResultStatus.EXPIRED): 1}


def test_a_job_that_broke_is_our_fault_and_is_not_tried_again(office):
    office.desk.broken(office.order(), ZeroDivisionError("secret"))
    bus = office.sent()
    [answer] = results(bus)
    assert (answer.status, answer.error) == (
        ResultStatus.REJECTED,
        ErrorInfo(code=ErrorCode.INTERNAL, message="analysis broke: ZeroDivisionError"),
    )
    assert handed_over(bus) == []


def test_a_clip_that_can_never_be_analysed_goes_to_the_dead_letters_too(office):
    order = office.order()
    office.desk.answered(order, parts.result(order.job, ResultStatus.REJECTED, error=BAD))
    bus = office.sent()
    [letter] = dead_letters(bus)
    assert (letter.job_id, letter.code) == (order.job.job_id, ErrorCode.NOT_MEDIA)
    assert len(results(bus)) == len(sla_events(bus)) == 1
    assert handed_over(bus) == []
    assert office.desk.dead_letters == 1


def test_a_clip_that_may_come_back_is_handed_over_and_no_dead_letter(office):
    order = office.order()
    office.desk.answered(order, parts.result(order.job, ResultStatus.REJECTED, error=AWAY))
    bus = office.sent()
    assert len(handed_over(bus)) == len(results(bus)) == 1
    assert dead_letters(bus) == []


def turn_away(desk: Desk, order: Order, how: str) -> None:
    if how == "refused":
        desk.refused(order, FULL)
    elif how == "expired":
        desk.expired(order)
    else:
        desk.answered(order, parts.result(order.job, ResultStatus.REJECTED, error=AWAY))


@pytest.mark.parametrize("how", ["refused", "expired", "store away"])
def test_backfill_is_never_handed_over_to_itself(how, office):
    turn_away(office.desk, office.order(Lane.BACKFILL), how)
    bus = office.sent()
    assert handed_over(bus) == []
    assert len(results(bus)) == len(sla_events(bus)) == 1


@pytest.mark.parametrize("how", ["refused", "expired", "store away"])
def test_nothing_is_handed_over_when_that_is_switched_off(how):
    office = Office(hand_over=False)
    turn_away(office.desk, office.order(), how)
    bus = office.sent()
    assert handed_over(bus) == []
    assert len(results(bus)) == 1


def test_a_message_that_is_no_job_gives_a_dead_letter_and_nothing_else(office):
    claim = begin_one(office.ledger)
    office.desk.unreadable(parts.record(b"x"), claim, BadMessage(Poison.NOT_JSON, "no JSON"))
    bus = office.sent()
    assert [letter.error_class for letter in dead_letters(bus)] == ["NotJson"]
    assert results(bus) == sla_events(bus) == []
    assert office.desk.dead_letters == 1
    assert not office.desk.counts


def test_a_result_that_is_too_large_is_replaced_by_a_short_one(office, caplog):
    order = office.order()
    office.desk.answered(order, parts.result(order.job, summary="x" * 2_000_000))
    bus = office.sent()
    [answer] = results(bus)
    assert (answer.job_id, answer.status) == (order.job.job_id, ResultStatus.REJECTED)
    assert answer.error is not None
    assert answer.error.code is ErrorCode.INTERNAL
    assert len(sla_events(bus)) == 1


def test_a_line_that_cannot_be_sent_gives_no_second_result(office, monkeypatch, caplog):
    """The topic of the lines may be forbidden to us; the result is out by then."""
    check = office.bus.check

    def refuse_lines(message):
        if message.topic == SENDER.topics.sla:
            raise BusError("not allowed", retryable=False)
        check(message)

    monkeypatch.setattr(office.bus, "check", refuse_lines)
    order = office.order()
    office.desk.answered(order, parts.result(order.job))
    assert office.outbox.close(5)
    assert [answer.status for answer in results(office.bus)] == [ResultStatus.COMPLETE]


@pytest.mark.parametrize("status", list(ResultStatus))
def test_every_kind_of_answer_is_counted_by_lane(status, office):
    for lane in Lane:
        order = office.order(lane)
        office.desk.answered(order, parts.result(order.job, status))
    bus = office.sent()
    assert office.desk.counts == {(lane, status): 1 for lane in Lane}
    assert len(results(bus)) == 2
    assert all(isinstance(answer, FusedResult) for answer in results(bus))


def slow_down(office: Office, monkeypatch: pytest.MonkeyPatch, *, each_s: float) -> None:
    """Let so much time pass with each message that is sent."""
    check = office.bus.check

    def check_slowly(message: Outgoing) -> None:
        office.clock.now_s += each_s
        check(message)

    monkeypatch.setattr(office.bus, "check", check_slowly)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_the_desk_learns_how_long_it_takes_until_all_of_an_answer_is_stored(exactly_once, monkeypatch):
    office = Office(exactly_once=exactly_once)
    assert office.desk.posting.reserve_s == START_S + MARGIN_S
    slow_down(office, monkeypatch, each_s=0.02)
    order = office.order()
    office.desk.answered(order, parts.result(order.job))
    assert len(sla_events(office.sent())) == 1
    assert office.desk.posting.reserve_s == pytest.approx(0.02 + 0.02 + MARGIN_S)  # the line and the result


@pytest.mark.parametrize("exactly_once", [False, True])
def test_what_was_tried_in_vain_counts_too_but_not_without_end(exactly_once, monkeypatch):
    office = Office(exactly_once=exactly_once)
    office.bus.fail_next("send", BusError("away", retryable=True))
    for module in ("outbox", "transactions"):
        monkeypatch.setattr(f"pipeline.service.{module}.BACKOFF_S", 0.0)
        logging.getLogger(f"pipeline.service.{module}").setLevel(logging.CRITICAL)
    slow_down(office, monkeypatch, each_s=60.0)
    order = office.order()
    office.desk.answered(order, parts.result(order.job))
    office.sent()
    assert office.desk.posting.reserve_s == pytest.approx(LONGEST_S + MARGIN_S)


@pytest.mark.parametrize("how", ["refused", "expired", "store away"])
def test_answers_that_turn_a_job_away_tell_as_much_about_posting(how, office, monkeypatch):
    slow_down(office, monkeypatch, each_s=0.01)
    turn_away(office.desk, office.order(), how)
    office.sent()
    assert office.desk.posting.reserve_s == pytest.approx(0.03 + MARGIN_S)  # with the job that is handed over


def test_an_answer_that_is_not_ours_to_give_any_more_tells_nothing(office):
    order = office.order()
    office.ledger.revoke([order.claim.partition])
    office.clock.now_s += 60.0
    office.desk.answered(order, parts.result(order.job))
    assert results(office.sent()) == []
    assert office.desk.posting.reserve_s == START_S + MARGIN_S

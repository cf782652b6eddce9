"""Records become orders or dead letters, each once, and no more wait than can be looked after."""

from dataclasses import replace

import pytest

from pipeline.bus.base import Partition, Position, Record
from pipeline.ingest.clock_skew import ClockSkew
from pipeline.ingest.message import BadMessage, IngestClocks, Poison
from pipeline.service.dispatcher import Order
from pipeline.service.intake import HIGH_WATER, LOW_WATER, Intake
from pipeline.service.ledger import Claim, Ledger
from schemas.job import Lane
from tests.unit.service_parts import TOPICS, WALL_S, job, partition, record

READ_S = 50.0


class Dispatcher:
    """Takes orders, and says that as many wait as the test wants."""

    def __init__(self) -> None:
        self.offered: list[Order] = []
        self.pretended: dict[Lane, int] = dict.fromkeys(Lane, 0)

    def offer(self, order: Order) -> None:
        self.offered.append(order)

    def waiting(self, lane: Lane) -> int:
        return self.pretended[lane]


class Desk:
    """Takes what cannot be read."""

    def __init__(self) -> None:
        self.unread: list[tuple[Record, Claim, BadMessage]] = []

    def unreadable(self, record: Record, claim: Claim, error: BadMessage) -> None:
        self.unread.append((record, claim, error))


class Entrance:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.dispatcher = Dispatcher()
        self.desk = Desk()
        self.holds: list[frozenset[str]] = []
        self.intake = Intake(
            self.ledger,
            self.dispatcher,
            self.desk,
            topics=TOPICS,
            clocks=IngestClocks(lambda: WALL_S, lambda: READ_S, ClockSkew()),
            hold=self.holds.append,
        )
        self.ledger.assign([partition(), partition(Lane.BACKFILL)], {})

    def take(self, *records: Record) -> None:
        self.intake.take(records, as_of=self.ledger.term)


@pytest.fixture
def entrance() -> Entrance:
    return Entrance()


def job_record(name: str = "", at: Partition | None = None, offset: int = 0, *, age_s: float = 0.0) -> Record:
    body = job(name).model_dump_json(exclude_unset=True).encode()
    return record(body, at=at, offset=offset, timestamp_ms=round((WALL_S - age_s) * 1000))


def test_a_record_becomes_an_order_with_its_deadline_from_the_records_timestamp(entrance):
    entrance.take(job_record("a", age_s=0.2))
    [order] = entrance.dispatcher.offered
    assert (order.job.job_id, order.job.lane, order.read_s) == ("a", Lane.REALTIME, READ_S)
    assert order.deadline.at_s == pytest.approx(READ_S - 0.2 + 0.5)
    assert entrance.ledger.holds(order.claim)
    assert (entrance.intake.read, entrance.intake.read_again) == (1, 0)


def test_a_record_is_no_older_than_the_time_that_its_partition_was_seen_to_end_before_it(entrance):
    entrance.take(replace(job_record("a", age_s=300.0), came_after_s=READ_S - 0.2))
    [order] = entrance.dispatcher.offered
    assert order.deadline.at_s == pytest.approx(READ_S - 0.2 + 0.5)
    assert (order.ingested.age_s, order.ingested.skew_s) == (pytest.approx(0.2), pytest.approx(-299.8))


def test_the_topic_says_the_lane(entrance):
    entrance.take(job_record("a", partition(Lane.BACKFILL)))
    [order] = entrance.dispatcher.offered
    assert order.job.lane is Lane.BACKFILL
    assert order.deadline.at_s == float("inf")


def test_poison_goes_to_the_dead_letters_and_what_follows_is_read(entrance):
    entrance.take(record(b"poison"), record(None, offset=1), job_record("good", offset=2))
    assert [(error.kind, claim.offset) for _, claim, error in entrance.desk.unread] == [
        (Poison.NOT_JSON, 0),
        (Poison.TOMBSTONE, 1),
    ]
    assert [order.job.job_id for order in entrance.dispatcher.offered] == ["good"]
    assert entrance.intake.read == 3


def test_records_that_were_answered_before_are_passed_over(entrance):
    entrance.ledger.assign([partition()], {partition(): Position(2, "[[1,1]]")})
    entrance.take(*(job_record(f"j{offset}", offset=offset) for offset in range(5)))
    assert [order.record.offset for order in entrance.dispatcher.offered] == [2, 4]
    assert (entrance.intake.read, entrance.intake.read_again) == (2, 3)


def test_a_record_that_is_under_way_is_not_begun_again(entrance):
    entrance.take(job_record("a"))
    entrance.take(job_record("a"))
    assert len(entrance.dispatcher.offered) == 1


def test_records_of_a_partition_that_went_are_left_to_its_new_owner(entrance):
    entrance.take(job_record(at=partition(number=9)), record(b"poison", at=partition(number=9), offset=1))
    assert entrance.dispatcher.offered == entrance.desk.unread == []


def test_records_from_before_a_partition_came_back_are_passed_over_since_they_come_again(entrance):
    before = entrance.ledger.term
    entrance.ledger.revoke([partition()])
    entrance.ledger.assign([partition()], {partition(): Position(0)})
    entrance.intake.take([job_record("stale", offset=7)], as_of=before)
    entrance.take(*(job_record(f"j{offset}", offset=offset) for offset in range(8)))
    assert [order.record.offset for order in entrance.dispatcher.offered] == list(range(8))


@pytest.mark.parametrize("lane", Lane)
def test_a_lane_is_held_at_high_water_and_let_in_again_below_low_water(lane, entrance):
    topic = TOPICS.of_lane(lane)
    for waiting, held in [
        (HIGH_WATER[lane] - 1, False),
        (HIGH_WATER[lane], True),
        (HIGH_WATER[lane] - 1, True),
        (LOW_WATER[lane], True),
        (LOW_WATER[lane] - 1, False),
        (HIGH_WATER[lane] - 1, False),
    ]:
        entrance.dispatcher.pretended[lane] = waiting
        entrance.intake.balance()
        assert (topic in (entrance.holds or [frozenset()])[-1]) is held
    assert entrance.holds == [frozenset([topic]), frozenset()]


def test_lanes_are_held_apart(entrance):
    entrance.dispatcher.pretended = dict(HIGH_WATER)
    entrance.intake.balance()
    entrance.dispatcher.pretended[Lane.REALTIME] = 0
    entrance.intake.balance()
    assert entrance.holds == [frozenset([TOPICS.realtime, TOPICS.backfill]), frozenset([TOPICS.backfill])]


def test_too_much_is_noticed_when_it_comes(entrance):
    entrance.dispatcher.pretended[Lane.BACKFILL] = HIGH_WATER[Lane.BACKFILL]
    entrance.take(job_record())
    assert entrance.holds == [frozenset([TOPICS.backfill])]

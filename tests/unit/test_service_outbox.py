"""A record is settled when every message of its answer is stored, however often it had to be sent."""

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pipeline.bus.base import Acknowledged, Outgoing
from pipeline.bus.errors import BusError
from pipeline.bus.memory import MemoryBus
from pipeline.service import outbox as outbox_module
from pipeline.service.answered import Recalled
from pipeline.service.ledger import LEASE_S, Claim, Ledger
from pipeline.service.outbox import Outbox, Parcel
from tests.unit.service_parts import TOPICS, begin_one, memory_bus, partition, wait_for

AWAY = BusError("the broker is away", retryable=True)
REFUSED = BusError("too large", retryable=False)


class SlowProducer:
    """Takes messages, and acknowledges each when the test says so."""

    def __init__(self) -> None:
        self.sent: list[tuple[Outgoing, Acknowledged]] = []

    def send(self, message: Outgoing, acknowledged: Acknowledged | None = None) -> None:
        assert acknowledged is not None
        self.sent.append((message, acknowledged))

    def flush(self, timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "BACKOFF_S", 0.0)
    logging.getLogger(outbox_module.__name__).setLevel(logging.CRITICAL)


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def claim(ledger: Ledger) -> Claim:
    return begin_one(ledger)


@pytest.fixture
def outbox(bus: MemoryBus, ledger: Ledger) -> Iterator[Outbox]:
    outbox = Outbox(bus.producer(), ledger)
    outbox.start()
    yield outbox
    outbox.close(1)


@pytest.fixture
def slow() -> SlowProducer:
    return SlowProducer()


@pytest.fixture
def slow_outbox(slow: SlowProducer, ledger: Ledger) -> Iterator[Outbox]:
    outbox = Outbox(slow, ledger)
    outbox.start()
    yield outbox
    outbox.close(0)


def message(body: str = "body", topic: str = TOPICS.results) -> Outgoing:
    return Outgoing(topic, b"key", body.encode())


def bodies(bus: MemoryBus, topic: str = TOPICS.results) -> list[str]:
    return [(record.value or b"").decode() for record in bus.records(topic)]


def test_a_parcel_is_sent_and_its_record_settled(bus, ledger, claim, outbox):
    outbox.put(Parcel(claim, [message("result"), message("line", TOPICS.sla)]))
    assert outbox.close(5)
    assert (bodies(bus), bodies(bus, TOPICS.sla)) == (["result"], ["line"])
    assert ledger.open() == outbox.unstored == 0


def test_the_answer_goes_out_last_and_the_record_stays_open_until_it_is_stored(ledger, claim, slow, slow_outbox):
    stored = threading.Event()
    slow_outbox.put(Parcel(claim, [message("a"), message("b"), message("answer")], stored=stored.set))
    wait_for(lambda: len(slow.sent) == 2)
    slow.sent[1][1](None)
    time.sleep(0.02)
    assert (len(slow.sent), ledger.open(), slow_outbox.unstored, stored.is_set()) == (2, 1, 2, False)
    slow.sent[0][1](None)
    wait_for(lambda: len(slow.sent) == 3)
    assert (ledger.open(), slow_outbox.unstored, stored.is_set()) == (1, 1, False)
    slow.sent[2][1](None)
    assert (ledger.open(), slow_outbox.unstored, stored.is_set()) == (0, 0, True)


def test_what_another_worker_has_stored_of_an_answer_is_not_sent_again(bus, ledger, outbox):
    terms = ledger.assign([partition()], {})
    ledger.recall(partition(), Recalled(0, parts={0: frozenset({TOPICS.sla})}), term=terms[partition()])
    claim = begin_one(ledger)
    outbox.put(Parcel(claim, [message("line", TOPICS.sla), message("result")]))
    assert outbox.close(5)
    assert (bodies(bus), bodies(bus, TOPICS.sla)) == (["result"], [])
    assert ledger.open() == 0


def test_nothing_goes_out_while_the_records_may_be_somebody_elses(bus, ledger, claim, outbox):
    ledger.confirm(time.monotonic() - LEASE_S)
    outbox.put(Parcel(claim, [message("late")]))
    time.sleep(0.05)
    assert bodies(bus) == []
    ledger.revoke([partition()])
    ledger.confirm(time.monotonic())
    assert outbox.close(5)
    assert bodies(bus) == []


def test_what_was_held_back_goes_out_once_the_records_are_known_to_be_ours(bus, ledger, claim, outbox):
    ledger.confirm(time.monotonic() - LEASE_S)
    outbox.put(Parcel(claim, [message("in time")]))
    ledger.confirm(time.monotonic())
    assert outbox.close(5)
    assert bodies(bus) == ["in time"]


@pytest.mark.parametrize("step", ["send", "acknowledge"])
def test_a_message_is_sent_again_until_the_broker_has_it(step, bus, ledger, claim, outbox):
    bus.fail_next(step, AWAY, times=3)
    outbox.put(Parcel(claim, [message("result"), message("line", TOPICS.sla)]))
    assert outbox.close(5)
    assert (bodies(bus), bodies(bus, TOPICS.sla)) == (["result"], ["line"])
    assert ledger.open() == 0


def test_an_error_that_is_none_of_the_bus_counts_as_one_that_passes(bus, ledger, claim, outbox):
    bus.fail_next("acknowledge", OSError("reset"))
    outbox.put(Parcel(claim, [message("result")]))
    assert outbox.close(5)
    assert bodies(bus) == ["result"]


@pytest.mark.parametrize("step", ["send", "acknowledge"])
def test_what_the_bus_never_takes_is_replaced_and_the_record_settled(step, bus, ledger, claim, outbox):
    bus.fail_next(step, REFUSED)
    told: list[tuple[Outgoing, BusError]] = []

    def instead(refused: Outgoing, error: BusError) -> list[Outgoing]:
        told.append((refused, error))
        return [message("short"), message("why", TOPICS.dead_letters)]

    outbox.put(Parcel(claim, [message("long"), message("line", TOPICS.sla)], undeliverable=instead))
    assert outbox.close(5)
    assert [(refused.value, error) for refused, error in told] == [(b"long", REFUSED)]
    assert (bodies(bus), bodies(bus, TOPICS.sla), bodies(bus, TOPICS.dead_letters)) == (["short"], ["line"], ["why"])
    assert ledger.open() == 0


@pytest.mark.parametrize("refusals", [1, 2])
def test_without_anything_instead_the_record_stays_open_and_the_outbox_goes_on(refusals, bus, ledger, claim, outbox):
    other = begin_one(ledger, offset=1)
    bus.fail_next("send", REFUSED, times=refusals)
    instead: Callable[..., list[Outgoing]] | None = (lambda *_: [message("short")]) if refusals == 2 else None
    parcel = Parcel(claim, [message("long")], undeliverable=instead)
    outbox.put(parcel)
    wait_for(lambda: outbox.unstored == 0)
    outbox.put(Parcel(other, [message("next")]))
    assert outbox.close(5)
    assert bodies(bus) == ["next"]
    assert ledger.positions()[claim.partition].offset == 0


@pytest.mark.parametrize("refused", [0, 1])
def test_a_parcel_of_which_one_message_was_given_up_is_never_settled(refused, ledger, claim, slow, slow_outbox):
    slow_outbox.put(Parcel(claim, [message("a"), message("b")]))
    for index in range(2):
        wait_for(lambda index=index: len(slow.sent) > index)
        slow.sent[index][1](REFUSED if index == refused else None)
    assert slow_outbox.unstored == 0
    assert ledger.open() == 1


def test_nothing_is_sent_for_a_record_that_belongs_to_somebody_else(bus, ledger, claim, outbox):
    ledger.revoke([partition()])
    outbox.put(Parcel(claim, [message("result"), message("line", TOPICS.sla)]))
    assert outbox.close(5)
    assert bodies(bus) == bodies(bus, TOPICS.sla) == []


def test_what_is_stored_after_the_partition_went_settles_nothing(ledger, claim, slow, slow_outbox):
    slow_outbox.put(Parcel(claim, [message()]))
    wait_for(lambda: bool(slow.sent))
    ledger.revoke([partition()])
    ledger.assign([partition()], {})
    again = begin_one(ledger)
    slow.sent[0][1](None)
    assert ledger.open() == 1
    assert ledger.holds(again)


def test_a_retry_does_not_go_out_when_the_partition_went_meanwhile(ledger, claim, slow, slow_outbox):
    slow_outbox.put(Parcel(claim, [message()]))
    wait_for(lambda: bool(slow.sent))
    ledger.revoke([partition()])
    slow.sent[0][1](AWAY)
    wait_for(lambda: slow_outbox.unstored == 0)
    assert len(slow.sent) == 1


def test_closing_waits_for_what_is_under_way(claim, slow, slow_outbox):
    slow_outbox.put(Parcel(claim, [message()]))
    closed: list[bool] = []
    closing = threading.Thread(target=lambda: closed.append(slow_outbox.close(20)))
    closing.start()
    wait_for(lambda: bool(slow.sent))
    assert closed == []
    slow.sent[0][1](None)
    closing.join(20)
    assert closed == [True]


def test_closing_says_when_something_could_not_be_stored(claim, slow, slow_outbox):
    slow_outbox.put(Parcel(claim, [message()]))
    assert not slow_outbox.close(0)


def test_after_closing_nothing_is_sent_again(claim, slow, slow_outbox, monkeypatch):
    monkeypatch.setattr(outbox_module, "BACKOFF_S", 60.0)
    slow_outbox.put(Parcel(claim, [message()]))
    wait_for(lambda: bool(slow.sent))
    slow_outbox.close(0)
    before = threading.active_count()
    slow.sent[0][1](AWAY)
    assert threading.active_count() == before
    assert len(slow.sent) == 1


def test_parcels_may_come_from_many_threads(bus, ledger, outbox):
    claims = [begin_one(ledger, offset=offset) for offset in range(40)]
    threads = [threading.Thread(target=outbox.put, args=(Parcel(claim, [message()]),)) for claim in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outbox.close(5)
    assert len(bodies(bus)) == 40
    assert ledger.open() == 0

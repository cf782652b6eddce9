"""Who takes a partition over finds out what is answered already, and begins nothing before that."""

import threading
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bus.base import Outgoing, Partition, Position, Record
from pipeline.bus.errors import BusError
from pipeline.bus.memory import MemoryBus, MemoryReader
from pipeline.service.answered import AnsweredSearch, Recalled, origin_of, recalled, with_origin
from pipeline.service.ledger import Ledger
from pipeline.service.takeover import Takeover
from tests.unit.service_parts import TOPICS, job, job_message, memory_bus, partition, record, wait_for

RESULTS, SLA = TOPICS.results, TOPICS.sla
AWAY = BusError("away", retryable=True)


def part_of(origin: tuple[Partition, int], topic: str) -> Outgoing:
    """A message that comes from a record."""
    return with_origin(Outgoing(topic, b"video", b"{}"), record(at=origin[0], offset=origin[1]))


def bus_with_jobs(count: int = 4) -> tuple[MemoryBus, Partition]:
    """Jobs that all lie in one partition."""
    bus = memory_bus()
    bus.append(job_message(job(f"j{number}", video_id="same")) for number in range(count))
    [at] = [p for p in bus.partitions if p.topic == TOPICS.realtime and bus.end(p)]
    return bus, at


def find(bus: MemoryBus, starts: Mapping[Partition, int | None]) -> Mapping[Partition, Recalled]:
    return AnsweredSearch(bus.reader(), TOPICS).find(starts)


def test_a_message_says_which_record_it_comes_from():
    message = part_of((partition(number=3), 41), RESULTS)
    assert origin_of(message.headers) == (partition(number=3), 41)


@pytest.mark.parametrize("said", [b"", b"t/1", b"t/1/x", b"t/-1/2", b"t/1/2/3", b"\xff/1/2"])
def test_an_origin_that_is_none_counts_for_nothing(said):
    assert origin_of((("hs_origin", said),)) is None


def test_a_record_with_a_result_is_answered_and_one_with_less_is_answered_in_part():
    found = recalled(5, [(4, RESULTS), (5, SLA), (5, RESULTS), (7, SLA)], results=RESULTS)
    assert found == Recalled(5, answered={5}, parts={7: frozenset({SLA})})


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from([RESULTS, SLA, TOPICS.backfill]))), st.integers(0, 20))
def test_a_record_is_answered_or_answered_in_part_or_neither(messages, first):
    found = recalled(first, messages, results=RESULTS)
    assert not found.answered & found.parts.keys()
    assert found.answered | found.parts.keys() == {offset for offset, _ in messages if offset >= first}
    assert all(topics and RESULTS not in topics for topics in found.parts.values())


def test_answers_are_found_wherever_they_lie():
    bus, at = bus_with_jobs()
    bus.append([part_of((at, 1), RESULTS), part_of((at, 2), SLA), part_of((at, 2), TOPICS.backfill)])
    bus.append([part_of((partition(number=1 - at.number), 1), RESULTS)])
    assert find(bus, {at: 1})[at] == Recalled(1, answered={1}, parts={2: frozenset({SLA, TOPICS.backfill})})


def test_where_nothing_was_committed_the_search_begins_with_the_oldest_record():
    bus, at = bus_with_jobs()
    bus.append([part_of((at, 0), RESULTS)])
    assert find(bus, {at: None})[at] == Recalled(0, answered={0})


def test_where_nothing_is_unanswered_nothing_is_looked_at():
    bus, at = bus_with_jobs()
    bus.append([part_of((at, 1), RESULTS)])
    assert find(bus, {at: 4})[at] == Recalled(4)


def test_a_search_that_fails_is_counted_and_the_next_one_works():
    bus, at = bus_with_jobs()
    bus.append([part_of((at, 1), RESULTS)])
    search = AnsweredSearch(bus.reader(), TOPICS)
    bus.fail_next("look", AWAY)
    assert search.find({at: 1}) == {}
    assert search.incomplete == 1
    assert search.find({at: 1})[at].answered == {1}


def test_when_time_is_up_what_was_found_counts():
    class Slow(MemoryReader):
        def read(self, spans: Mapping[Partition, range], *, within_s: float) -> Iterator[Record]:
            yield from super().read(spans, within_s=within_s)
            if any(at.topic == RESULTS for at in spans):
                raise AWAY

    bus, at = bus_with_jobs()
    bus.append([part_of((at, 1), RESULTS), part_of((at, 2), SLA)])
    search = AnsweredSearch(Slow(bus), TOPICS)
    assert search.find({at: 1})[at] == Recalled(1, answered={1})
    assert search.incomplete == 1


def test_jobs_that_cannot_be_read_do_not_hide_their_answers():
    class Damaged(MemoryReader):
        def read(self, spans: Mapping[Partition, range], *, within_s: float) -> Iterator[Record]:
            if any(at.topic == TOPICS.realtime for at in spans):
                raise AWAY
            return super().read(spans, within_s=within_s)

    bus, at = bus_with_jobs()
    bus.append([part_of((at, 1), RESULTS)])
    assert AnsweredSearch(Damaged(bus), TOPICS).find({at: 1})[at].answered == {1}


def test_nothing_is_begun_of_what_was_answered_and_the_commit_goes_past_it():
    ledger = Ledger()
    terms = ledger.assign([partition()], {partition(): Position(3)}, sought=True)
    assert ledger.sought == {partition()}
    ledger.recall(partition(), Recalled(3, answered={3, 5}), term=terms[partition()])
    assert not ledger.sought
    begun = [ledger.begin(partition(), offset, as_of=ledger.term) for offset in (3, 4, 5)]
    assert [claim is not None for claim in begun] == [False, True, False]
    assert begun[1] is not None
    ledger.settle(begun[1])
    assert ledger.positions()[partition()].offset == 6


def test_what_was_found_out_for_an_earlier_term_counts_for_nothing():
    ledger = Ledger()
    old = ledger.assign([partition()], {}, sought=True)
    ledger.revoke([partition()])
    ledger.assign([partition()], {}, sought=True)
    ledger.recall(partition(), Recalled(0, answered={0}), term=old[partition()])
    assert ledger.sought == {partition()}


@pytest.mark.parametrize("broken", [False, True])
def test_a_takeover_tells_the_ledger_even_when_the_search_breaks(broken):
    bus, at = bus_with_jobs()
    bus.append([part_of((at, 0), RESULTS)])
    if broken:
        bus.fail_next("look", ZeroDivisionError())
    ledger, done = Ledger(), threading.Event()
    takeover = Takeover(AnsweredSearch(bus.reader(), TOPICS), ledger)
    takeover.begin(ledger.assign([at], {}, sought=True), {}, done=done.set)
    wait_for(done.is_set)
    takeover.close()
    assert not ledger.sought
    assert (ledger.begin(at, 0, as_of=ledger.term) is not None) == broken

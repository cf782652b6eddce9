"""What is owed is settled once, by whoever holds the partition, and committed when it changed."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from pipeline.bus.base import Position
from pipeline.service.ledger import Claim, Ledger
from schemas.job import Lane
from tests.unit.service_parts import begin_one, partition

P0, P1 = partition(number=0), partition(number=1)


def ledger_with(at: int | None = None) -> Ledger:
    """Partition 0 is ours, committed at ``at`` if at all."""
    ledger = Ledger()
    ledger.assign([P0], {} if at is None else {P0: Position(at, "[]")})
    return ledger


def begin(ledger: Ledger, offset: int) -> Claim | None:
    return ledger.begin(P0, offset, as_of=ledger.term)


def test_a_record_of_a_partition_that_is_not_ours_gives_no_claim() -> None:
    ledger = ledger_with()
    assert ledger.begin(P1, 0, as_of=ledger.term) is None
    assert ledger.partitions == (P0,)


def test_a_record_is_begun_once_while_it_is_under_way_and_never_after_it_was_answered() -> None:
    ledger = ledger_with()
    claim = begin_one(ledger, P0, 7)
    assert begin(ledger, 7) is None
    ledger.settle(claim)
    assert begin(ledger, 7) is None


def test_records_before_the_committed_position_were_answered_by_somebody() -> None:
    ledger = ledger_with(at=5)
    assert begin(ledger, 4) is None
    assert begin(ledger, 5) is not None


def test_what_a_predecessor_answered_beyond_its_commit_is_not_answered_again() -> None:
    first = ledger_with(at=0)
    claims = [begin_one(first, P0, offset) for offset in range(4)]
    first.settle(claims[2])
    [position] = first.positions().values()
    second = Ledger()
    second.assign([P0], {P0: position})
    assert [begin(second, offset) is not None for offset in range(4)] == [True, True, False, True]


def test_a_claim_of_an_earlier_term_settles_nothing() -> None:
    ledger = ledger_with(at=0)
    old = begin_one(ledger, P0, 0)
    ledger.revoke([P0])
    ledger.assign([P0], {P0: Position(0, "[]")})
    new = begin_one(ledger, P0, 0)
    ledger.settle(old)
    assert not ledger.holds(old)
    assert ledger.holds(new)
    assert (ledger.open(), ledger.positions()) == (1, {})
    ledger.settle(new)
    assert ledger.positions() == {P0: Position(1, "[]")}


def test_a_record_that_was_read_in_an_earlier_term_does_not_jump_over_those_before_it() -> None:
    ledger = ledger_with(at=0)
    read_in_term = ledger.term
    ledger.revoke([P0])
    ledger.assign([P0], {P0: Position(30)})
    assert ledger.begin(P0, 100, as_of=read_in_term) is None
    assert ledger.begin(P0, 30, as_of=ledger.term) is not None


def test_a_partition_that_comes_later_does_not_make_the_others_records_old() -> None:
    ledger = ledger_with(at=0)
    ledger.assign([P1], {})
    assert ledger.begin(P0, 0, as_of=ledger.term) is not None


def test_a_revoked_partition_voids_its_claims_and_leaves_the_others_alone() -> None:
    ledger = Ledger()
    gone, kept = begin_one(ledger, P0, 0), begin_one(ledger, P1, 0)
    ledger.revoke([P0, partition(Lane.BACKFILL)])
    assert (ledger.holds(gone), ledger.holds(kept)) == (False, True)
    ledger.settle(gone)
    assert ledger.partitions == (P1,)
    assert ledger.open() == 1


def test_only_positions_that_changed_are_to_be_committed() -> None:
    ledger = ledger_with(at=3)
    assert ledger.positions() == {}
    claim = begin_one(ledger, P0, 3)
    ledger.settle(claim)
    assert ledger.positions() == {P0: Position(4, "[]")}
    assert ledger.positions([P1]) == {}
    ledger.committed(ledger.positions())
    assert ledger.positions() == {}


def test_an_answer_out_of_order_changes_the_note_but_not_the_offset() -> None:
    ledger = ledger_with(at=0)
    begin_one(ledger, P0, 0)
    second = begin_one(ledger, P0, 1)
    ledger.settle(second)
    assert ledger.positions() == {P0: Position(0, "[[1,1]]")}


def test_a_partition_of_which_nothing_came_has_nothing_to_commit() -> None:
    ledger = ledger_with()
    assert ledger.positions() == {}


def test_a_commit_of_a_partition_that_went_meanwhile_is_no_matter() -> None:
    ledger = ledger_with()
    ledger.committed({P1: Position(4)})
    assert ledger.partitions == (P0,)


def in_background(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_waiting_ends_when_the_last_record_is_settled_and_does_not_mind_other_partitions() -> None:
    ledger = Ledger()
    first, second, _other = (begin_one(ledger, P0, 0), begin_one(ledger, P0, 1), begin_one(ledger, P1, 0))
    told: list[bool] = []
    waiting = in_background(lambda: told.append(ledger.wait_until_settled([P0], timeout_s=20)))
    ledger.settle(first)
    assert told == []
    ledger.settle(second)
    waiting.join(20)
    assert told == [True]


def test_waiting_gives_up() -> None:
    ledger = Ledger()
    begin_one(ledger, P0, 0)
    assert not ledger.wait_until_settled([P0], timeout_s=0)


def test_nobody_waits_for_a_partition_that_is_gone() -> None:
    ledger = Ledger()
    begin_one(ledger, P0, 0)
    told: list[bool] = []
    waiting = in_background(lambda: told.append(ledger.wait_until_settled([P0], timeout_s=20)))
    ledger.revoke([P0])
    waiting.join(20)
    assert told == [True]


def test_many_threads_begin_settle_and_commit_and_nothing_is_counted_twice_or_forgotten() -> None:
    threads, records = 4, 400
    ledger = ledger_with(at=0)
    term = ledger.term
    barrier = threading.Barrier(threads)
    begun: list[Claim] = []

    def work(_: int) -> None:
        barrier.wait(20)
        for offset in range(records):  # all threads want all of them
            claim = ledger.begin(P0, offset, as_of=term)
            if claim is not None:
                begun.append(claim)
                ledger.settle(claim)
            ledger.committed(ledger.positions())

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    assert sorted(claim.offset for claim in begun) == list(range(records))
    assert ledger.open() == 0
    ledger.committed({P0: Position(0)})
    assert ledger.positions() == {P0: Position(records, "[]")}


def test_a_worker_has_joined_once_the_group_has_said_so() -> None:
    ledger = Ledger(clock=lambda: 100.0)
    assert not ledger.joined
    ledger.confirm(float("-inf"))
    assert not ledger.joined
    ledger.confirm(1.0)
    assert ledger.joined
    assert not ledger.certain, "long ago, though"

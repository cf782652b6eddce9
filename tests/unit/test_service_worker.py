"""The service as a whole over the bus in memory: one answer a job, whatever happens to workers meanwhile."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pipeline.bus.base import Outgoing, Partition
from pipeline.bus.errors import BusError
from pipeline.bus.memory import MAX_POLL_RECORDS, MemoryBus
from pipeline.service import outbox, poll_thread, posting, transactions
from pipeline.service import worker as worker_module
from pipeline.service.dispatcher import Analyst, Places
from pipeline.service.worker import Worker, WorkerPolicy
from schemas.deadline import Deadline
from schemas.job import Lane, VideoJob
from schemas.result import FusedResult, ResultStatus
from tests.unit import service_parts as parts
from tests.unit.service_parts import (
    TOPICS,
    answer_at_once,
    dead_letters,
    ends,
    handed_over,
    job,
    job_message,
    memory_bus,
    offsets,
    results,
    running,
    sla_events,
    until,
)

AMPLE_MS = 600_000


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "BACKOFF_S", 0.0)
    monkeypatch.setattr(transactions, "BACKOFF_S", 0.0)
    monkeypatch.setattr(poll_thread, "BACKOFF_S", 0.0)
    monkeypatch.setattr(poll_thread, "COMMIT_EVERY_S", 0.0)
    monkeypatch.setattr(worker_module, "DRAIN_S", 5.0)
    for module in (outbox, poll_thread, transactions, worker_module):
        logging.getLogger(module.__name__).setLevel(logging.CRITICAL)


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus(partitions=4)


StartWorker = Callable[..., Worker]


@pytest.fixture(params=["at least once", "exactly once"])
def worker_on(request: pytest.FixtureRequest) -> StartWorker:
    """Makes workers of one kind."""

    def make(
        bus: MemoryBus,
        analyst: Analyst = answer_at_once,
        name: str = "w1",
        *,
        places: int = 4,
        wall: Callable[[], float] = time.time,
    ) -> Worker:
        policy = WorkerPolicy(
            worker_id=name,
            group_id="group",
            places=Places(total=places, backfill=1),
            exactly_once=request.param == "exactly once",
        )
        return Worker(bus, TOPICS, analyst, policy, wall=wall)

    return make


@asynccontextmanager
async def at_work(worker: Worker) -> AsyncIterator[Worker]:
    """A worker with partitions; it drains at the end."""
    task = await running(worker.run(), lambda: bool(worker.ledger.partitions))
    yield worker
    worker.stop()
    await task


def send(bus: MemoryBus, count: int, lane: Lane = Lane.REALTIME, budget_ms: int | None = AMPLE_MS) -> list[VideoJob]:
    sent = [job(lane=lane, budget_ms=budget_ms) for _ in range(count)]
    for asked in sent:
        bus.producer().send(job_message(asked))
    return sent


def names(bus: MemoryBus) -> Counter[str]:
    return Counter(answer.job_id for answer in results(bus))


def all_seen_empty(worker: Worker) -> bool:
    """Whether the worker has looked into every partition while there was nothing in it."""
    ends = worker._poller._consumer._ends
    return bool(worker.ledger.partitions) and all(
        ends.came_after_s(partition, 0) is not None for partition in worker.ledger.partitions
    )


def committed(bus: MemoryBus) -> dict[Partition, int]:
    return {at: offset for at, offset in offsets(bus.group("group").committed).items() if offset}


def everything_is_committed(bus: MemoryBus) -> bool:
    return committed(bus) == ends(bus) | ends(bus, Lane.BACKFILL)


async def test_a_hundred_jobs_give_a_hundred_results_and_all_of_it_is_committed(bus, worker_on):
    sent = send(bus, 100)
    async with at_work(worker_on(bus)):
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in sent)
    assert {answer.status for answer in results(bus)} == {ResultStatus.COMPLETE}
    assert Counter(line.job_id for line in sla_events(bus)) == names(bus)
    assert dead_letters(bus) == handed_over(bus) == []


async def test_poison_among_jobs_goes_to_the_dead_letters_and_stops_nothing(bus, worker_on):
    sent = send(bus, 5)
    for poison in (b"no json", b"{}", None):
        bus.producer().send(Outgoing(TOPICS.realtime, b"poison", poison))
    sent += send(bus, 5)
    async with at_work(worker_on(bus)):
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in sent)
    assert Counter(letter.error_class for letter in dead_letters(bus)) == Counter(
        ["NotJson", "MissingField", "Tombstone"]
    )


async def test_an_analysis_ends_early_enough_for_its_answer_to_be_stored_in_time(bus, worker_on, monkeypatch):
    monkeypatch.setattr(posting, "START_S", AMPLE_MS / 1e3 / 2)
    left_s: list[float] = []

    @parts.Obliging
    async def note_what_is_left(job: VideoJob, *, deadline: Deadline) -> FusedResult:
        left_s.append(deadline.remaining())
        return parts.result(job)

    send(bus, 1)
    async with at_work(worker_on(bus, note_what_is_left)) as worker:
        await until(lambda: everything_is_committed(bus))
        assert worker.desk is not None
        assert worker.desk.posting.reserve_s == pytest.approx(posting.START_S + posting.MARGIN_S)  # one tells little
    [given_s] = left_s
    assert AMPLE_MS / 1e3 / 4 < given_s <= AMPLE_MS / 1e3 / 2 - posting.MARGIN_S


async def test_a_job_that_is_late_is_expired_and_answered_in_the_backfill_lane(bus, worker_on):
    [late] = send(bus, 1, budget_ms=1)
    await until(lambda: bus._wall() * 1000 > bus.records(TOPICS.realtime)[0].timestamp_ms + 2)
    async with at_work(worker_on(bus)):
        await until(lambda: len(results(bus)) == 2 and everything_is_committed(bus))
    assert [answer.status for answer in sorted(results(bus), key=lambda answer: answer.status)] == [
        ResultStatus.COMPLETE,
        ResultStatus.EXPIRED,
    ]
    assert names(bus) == {late.job_id: 2}
    assert [again.lane for again in handed_over(bus)] == [Lane.BACKFILL]


async def test_a_worker_that_joins_takes_its_share_and_nothing_is_lost_or_answered_twice(bus, worker_on):
    sent = send(bus, 60)
    first, second = worker_on(bus, name="first"), worker_on(bus, name="second")
    async with at_work(first):
        sent += send(bus, 60)
        async with at_work(second):
            sent += send(bus, 60)
            await until(lambda: len(second.ledger.partitions) == len(first.ledger.partitions) == 4)
            sent += send(bus, 60)
            await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in sent)


async def test_a_worker_that_leaves_hands_its_share_on_and_nothing_is_lost_or_answered_twice(bus, worker_on):
    first, second = worker_on(bus, name="first"), worker_on(bus, name="second")
    async with at_work(second):
        async with at_work(first):
            sent = send(bus, 100)
        sent += send(bus, 20)
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in sent)
    assert first.ledger.partitions == second.ledger.partitions == ()


@pytest.mark.parametrize("seed", range(3))
async def test_however_often_partitions_move_every_job_is_answered_once(seed, bus, worker_on):
    chance = random.Random(seed)
    first, second = worker_on(bus, name="first"), worker_on(bus, name="second")
    jobs_partitions = [at for at in bus.partitions if at.topic == TOPICS.realtime]
    sent: list[VideoJob] = []
    async with at_work(first), at_work(second):
        for _ in range(12):
            sent += send(bus, 15)
            moved = set(chance.sample(jobs_partitions, chance.randint(0, len(jobs_partitions))))
            shares = {first._poller._consumer: moved, second._poller._consumer: set(jobs_partitions) - moved}
            bus.rebalance(shares)
            if chance.random() < 0.5:
                await until(lambda moved=moved: moved <= set(first.ledger.partitions))
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in sent)


async def test_a_worker_that_was_thrown_out_of_the_group_comes_back_and_answers_on(bus, worker_on):
    sent = send(bus, 20)
    worker = worker_on(bus)
    async with at_work(worker):
        await until(lambda: everything_is_committed(bus))
        bus.evict(worker._poller._consumer)
        sent += send(bus, 20)
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in sent)


async def test_a_broker_that_is_away_for_a_while_costs_no_answer(bus, worker_on):
    away = BusError("away", retryable=True)
    sent = send(bus, 20)
    for step in ("poll", "commit", "send", "acknowledge", "transaction"):
        bus.fail_next(step, away, times=3)
    async with at_work(worker_on(bus)):
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in sent)


async def test_stopping_finishes_realtime_and_leaves_backfill_to_others(bus, worker_on):
    analyst = parts.Analyst()
    worker = worker_on(bus, analyst)
    [realtime], [backfill] = send(bus, 1), send(bus, 1, Lane.BACKFILL, budget_ms=None)
    task = await running(worker.run(), lambda: len(analyst.under_way) == 2)
    worker.stop()
    await until(lambda: analyst.under_way == [realtime.job_id])
    late = send(bus, 3)
    analyst.finish(realtime.job_id)
    await task
    assert names(bus) == {realtime.job_id: 1}
    async with at_work(worker_on(bus, name="next")):
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in (realtime, backfill, *late))


async def test_records_that_come_after_the_stop_are_left_to_others(bus, worker_on):
    worker = worker_on(bus)
    task = await running(worker.run(), lambda: bool(worker.ledger.partitions))
    worker.stop()
    [late] = send(bus, 1)
    worker._bring(asyncio.get_running_loop(), bus.records(TOPICS.realtime))
    await task
    assert results(bus) == []
    async with at_work(worker_on(bus, name="next")):
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == {late.job_id: 1}


async def test_stopping_gives_up_on_what_does_not_end_and_others_answer_it(bus, worker_on, monkeypatch):
    monkeypatch.setattr(worker_module, "DRAIN_S", 0.01)
    monkeypatch.setattr(poll_thread, "REVOKE_WAIT_S", 0.0)
    analyst = parts.Analyst()
    worker = worker_on(bus, analyst)
    [stuck] = send(bus, 1)
    task = await running(worker.run(), lambda: bool(analyst.under_way))
    worker.stop()
    await task
    assert results(bus) == []
    analyst.finish(stuck.job_id)
    async with at_work(worker_on(bus, name="next")):
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == {stuck.job_id: 1}


async def test_a_group_that_refuses_the_worker_ends_it_with_the_reason(bus, worker_on):
    worker = worker_on(bus)
    task = await running(worker.run(), lambda: bool(worker.ledger.partitions))
    bus.fail_next("poll", BusError("not allowed", retryable=False))
    with pytest.raises(BusError, match="not allowed"):
        await task
    assert not worker.ready


async def test_of_jobs_that_wait_together_realtime_goes_first_and_backfill_is_answered_too(bus, worker_on):
    analyst = parts.Analyst()
    worker = worker_on(bus, analyst, places=1)
    send(bus, 6, Lane.BACKFILL, budget_ms=None)
    send(bus, 6)
    task = await running(worker.run(), lambda: worker.dispatcher is not None and worker.intake.read == 12)
    for answered in range(12):
        await until(lambda answered=answered: len(analyst.begun) > answered and bool(analyst.under_way))
        analyst.finish(analyst.under_way[0])
    await until(lambda: everything_is_committed(bus))
    worker.stop()
    await task
    lanes = [asked.lane for asked in analyst.begun[1:]]  # the first one found an empty house
    assert lanes == sorted(lanes, key=lambda lane: lane is Lane.BACKFILL)
    assert len(names(bus)) == 12


async def test_a_full_backfill_lane_is_held_back_while_realtime_comes_and_let_in_when_there_is_room(bus, worker_on):
    free = asyncio.Event()

    @parts.Obliging
    async def slow_backfill(job: VideoJob, *, deadline: Deadline) -> FusedResult:
        if job.lane is Lane.BACKFILL:
            await free.wait()
        return parts.result(job)

    worker = worker_on(bus, slow_backfill, places=2)
    waiting = send(bus, 100, Lane.BACKFILL, budget_ms=None)
    async with at_work(worker):
        await until(lambda: worker.intake.read == 100 and len(worker._poller._paused) == 4)
        waiting += send(bus, 20, Lane.BACKFILL, budget_ms=None)
        [urgent] = send(bus, 1)
        await until(lambda: names(bus) == {urgent.job_id: 1})
        assert worker.intake.read == 101
        free.set()
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in (urgent, *waiting))


async def test_a_stuck_loop_is_given_no_more_than_it_can_take_and_answers_all_later(bus, worker_on, monkeypatch):
    monkeypatch.setattr(poll_thread, "MOST_UNTAKEN", 100)
    worker = worker_on(bus)
    async with at_work(worker):
        await until(lambda: not worker.ledger.sought)
        sent = send(bus, 1000)
        parts.wait_for(lambda: worker._poller._is_behind)  # blocks the loop
        assert worker._poller._untaken.count <= 100 + MAX_POLL_RECORDS
        await until(lambda: everything_is_committed(bus))
    assert names(bus) == Counter(asked.job_id for asked in sent)


@pytest.mark.parametrize("shift_s", [-300.0, 300.0])
async def test_a_worker_whose_clock_is_wrong_answers_fresh_jobs_as_if_it_were_right(shift_s, bus, worker_on):
    async with at_work(worker_on(bus, wall=lambda: time.time() + shift_s)) as worker:
        await until(lambda: all_seen_empty(worker))
        sent = send(bus, 20, budget_ms=20_000)
        await until(lambda: len(results(bus)) == 20)
    assert {answer.status for answer in results(bus)} == {ResultStatus.COMPLETE}
    assert names(bus) == Counter(asked.job_id for asked in sent)


async def test_answers_find_their_topics_known_and_a_topic_that_is_missing_is_named_once(worker_on, caplog):
    bus = MemoryBus({topic.name: 1 for topic in TOPICS.all() if topic.name != TOPICS.dead_letters})
    logging.getLogger(worker_module.__name__).setLevel(logging.WARNING)
    async with at_work(worker_on(bus)):
        send(bus, 1)
        await until(lambda: everything_is_committed(bus))
    [warning] = [found for found in caplog.records if found.name == worker_module.__name__]
    assert TOPICS.dead_letters in warning.getMessage()


async def test_being_cancelled_still_leaves_the_group(bus, worker_on):
    worker = worker_on(bus)
    task = await running(worker.run(), lambda: bool(worker.ledger.partitions))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert worker.ledger.partitions == ()
    assert not worker.ready

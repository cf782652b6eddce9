"""Units of one job: who gives way, what they teach, and what they take off the load."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pipeline.board import Board, StageRecord
from pipeline.forecast import PRIORS_MS, Forecast
from pipeline.job_run import JobRun, Workshop
from pipeline.latency import LatencyBook
from pipeline.slot_queue import Rank
from pipeline.slots import CpuSlots, NotBegun
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded
from tests.unit.fakes import FakeDecoders, job, toolbox
from tests.unit.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def workshop(clock: ManualClock) -> Iterator[Workshop]:
    slots = CpuSlots(1, clock=clock)
    yield Workshop(toolbox(), FakeDecoders(), slots, LatencyBook(PRIORS_MS))  # type: ignore[arg-type]
    slots.close()


def run_of(workshop: Workshop, clock: ManualClock, *, cutoff: Deadline) -> JobRun:
    board = Board(job_id="clip", began_s=clock(), clock=clock)
    return JobRun(workshop, job(), Path("clip.mp4"), "auto", cutoff, board)


async def test_a_clip_that_is_partial_at_best_gives_way_to_what_others_need(workshop, clock):
    soon = run_of(workshop, clock, cutoff=Deadline.after(5, clock=clock))
    late = run_of(workshop, clock, cutoff=Deadline.after(9, clock=clock))
    record, served, gate = StageRecord("ocr"), [], threading.Event()
    soon.partial_at_best = True
    blocker = asyncio.create_task(soon.unit(record, gate.wait, rank=Rank.CHAIN))
    await asyncio.sleep(0)
    asked = [("partial", soon, Rank.FIRST), ("whole", late, Rank.LIGHT), ("better", late, Rank.MORE)]
    units = [
        asyncio.create_task(run.unit(record, partial(served.append, name), rank=rank)) for name, run, rank in asked
    ]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(blocker, *units)
    assert served == ["whole", "partial", "better"]


async def test_its_decoder_gives_way_too_and_its_extras_stay_last(workshop, clock):
    soon = run_of(workshop, clock, cutoff=Deadline.after(5, clock=clock))
    late = run_of(workshop, clock, cutoff=Deadline.after(9, clock=clock))
    served: list[str] = []
    soon.partial_at_best = True

    async def decode(name: str, run: JobRun, rank: Rank) -> None:
        async with run.slot(rank):
            served.append(name)

    asked = [("extra", soon, Rank.EXTRA), ("partial", soon, Rank.DECODE), ("whole", late, Rank.DECODE)]
    async with workshop.slots.hold(rank=Rank.CHAIN, deadline=Deadline.never()):
        decoding = [asyncio.create_task(decode(*each)) for each in asked]
        await asyncio.sleep(0)
    await asyncio.gather(*decoding)
    assert served == ["whole", "partial", "extra"]


async def test_what_a_unit_took_is_learnt_by_its_size_and_booked_on_its_stage(workshop, clock):
    run, record = run_of(workshop, clock, cutoff=Deadline.never(clock=clock)), StageRecord("transcribe")
    await run.unit(record, partial(clock.pass_ms, 300), rank=Rank.CHAIN, amount=6, key="transcribe:en")
    assert workshop.latencies.predict_ms("transcribe:en", work=6) == pytest.approx(300)
    assert record.busy_ms == pytest.approx(300)


async def test_only_what_an_answer_needs_is_taken_off_the_load(workshop, clock):
    run, record = run_of(workshop, clock, cutoff=Deadline.never(clock=clock)), StageRecord("ocr")
    workshop.load.begin(run.job.job_id, Forecast(400, 400, 400, 100, 100, 5))
    await run.unit(record, partial(clock.pass_ms, 100), rank=Rank.MORE)
    assert workshop.load.left_ms(clock()) == pytest.approx(500)
    await run.unit(record, partial(clock.pass_ms, 100), rank=Rank.HEAVY)
    assert workshop.load.left_ms(clock()) == pytest.approx(400)
    async with run.slot(Rank.DECODE):
        clock.pass_ms(50)
        assert workshop.load.left_ms(clock()) == pytest.approx(350)
    assert workshop.load.left_ms(clock()) == pytest.approx(350)


async def test_a_unit_ends_by_its_own_deadline_and_begins_by_its_own(workshop, clock):
    run, record, gate = (
        run_of(workshop, clock, cutoff=Deadline.never(clock=clock)),
        StageRecord("ocr"),
        threading.Event(),
    )
    with pytest.raises(DeadlineExceeded):
        await run.unit(record, gate.wait, rank=Rank.MORE, until=Deadline.after(0.01))
    with pytest.raises(NotBegun):
        await run.unit(record, gate.wait, rank=Rank.MORE, start_by=Deadline.after(0.01))
    gate.set()


def test_a_job_has_the_time_from_its_arrival_to_its_cutoff(workshop, clock):
    run = run_of(workshop, clock, cutoff=Deadline.after(0.5, clock=clock))
    clock.pass_ms(200)
    assert run.time_s == pytest.approx(0.5)
    assert run_of(workshop, clock, cutoff=Deadline.never()).time_s == float("inf")

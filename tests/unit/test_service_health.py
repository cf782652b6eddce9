"""What orchestrators and Prometheus are told is what is so."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.bus.base import Outgoing
from pipeline.bus.errors import BusError
from pipeline.bus.memory import MemoryBus
from pipeline.service import poll_thread
from pipeline.service.dispatcher import Places
from pipeline.service.health import HANGS_S, health_server
from pipeline.service.worker import Worker, WorkerPolicy
from schemas.job import Lane
from schemas.result import ResultStatus
from tests.unit.service_parts import TOPICS, answer_at_once, job, job_message, memory_bus, running, until

PLACES = Places(total=2, backfill=1)
GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md").read_text("utf-8")


@pytest.fixture
def bus() -> MemoryBus:
    return memory_bus()


@pytest.fixture
def worker(bus: MemoryBus) -> Worker:
    policy = WorkerPolicy(worker_id="w1", group_id="group", places=PLACES)
    return Worker(bus, TOPICS, answer_at_once, policy)


@asynccontextmanager
async def asking(worker: Worker) -> AsyncIterator["Asker"]:
    async with (
        health_server(worker, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield Asker(session)


class Asker:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def status(self, path: str) -> int:
        async with self._session.get(path) as answer:
            return answer.status

    async def metrics(self) -> dict[tuple[str, frozenset[str]], float]:
        """Every sample, by its name and the values of its labels."""
        async with self._session.get("/metrics") as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            families = text_string_to_metric_families(await answer.text())
            return {
                (sample.name, frozenset(sample.labels.values())): sample.value
                for family in families
                for sample in family.samples
            }


def metric(name: str, *labels: str) -> tuple[str, frozenset[str]]:
    return f"halfsecond_{name}", frozenset(labels)


async def test_a_worker_is_alive_at_once_and_ready_only_while_it_takes_jobs(worker):
    async with asking(worker) as ask:
        assert (await ask.status("/livez"), await ask.status("/readyz")) == (200, 503)
        task = await running(worker.run(), lambda: worker.ready)
        assert (await ask.status("/livez"), await ask.status("/readyz")) == (200, 200)
        worker.stop()
        await task
        assert await ask.status("/readyz") == 503


async def test_a_worker_is_not_ready_before_the_group_has_taken_it_in(bus, worker, monkeypatch):
    monkeypatch.setattr(poll_thread, "BACKOFF_S", 0.001)
    logging.getLogger(poll_thread.__name__).setLevel(logging.CRITICAL)
    bus.fail_next("poll", BusError("away", retryable=True), times=10**6)
    async with asking(worker) as ask:
        task = await running(worker.run(), lambda: worker._poller is not None and worker._poller.alive)
        await asyncio.sleep(0.02)
        assert (await ask.status("/livez"), await ask.status("/readyz")) == (200, 503)
        bus._failures.clear()
        await until(lambda: worker.ready)
        assert await ask.status("/readyz") == 200
        worker.stop()
        await task


async def test_a_worker_too_many_is_ready_though_it_has_no_partition():
    bus = memory_bus(partitions=1)
    policies = [WorkerPolicy(worker_id=f"w{n}", group_id="group", places=PLACES) for n in range(3)]
    workers = [Worker(bus, TOPICS, answer_at_once, policy) for policy in policies]
    tasks = [await running(worker.run(), lambda worker=worker: worker.ready) for worker in workers]
    assert min(len(worker.ledger.partitions) for worker in workers) == 0
    for worker, task in zip(workers, tasks, strict=True):
        worker.stop()
        assert not worker.ready
        await task


async def test_a_worker_whose_poll_thread_has_ended_is_not_ready(worker):
    task = await running(worker.run(), lambda: worker.ready)
    worker._poller._stopping.set()
    worker._poller._thread.join(5)
    assert not worker.ready
    worker.stop()
    await task


async def test_a_poll_thread_that_hangs_is_told(worker, monkeypatch):
    async with asking(worker) as ask:
        task = await running(worker.run(), lambda: worker.ready)
        silent_s = HANGS_S + 1
        monkeypatch.setattr(Worker, "silent_s", property(lambda _: silent_s))
        assert (await ask.status("/livez"), await ask.status("/readyz")) == (503, 503)
        silent_s = HANGS_S - 1
        assert (await ask.status("/livez"), await ask.status("/readyz")) == (200, 200)
        worker.stop()
        await task


async def test_silence_is_counted_from_the_last_poll(worker):
    assert worker.silent_s == 0
    task = await running(worker.run(), lambda: worker.ready)
    worker._poller._stopping.set()
    worker._poller._thread.join(5)
    worker._poller.last_poll_s = time.monotonic() - 100
    assert 100 <= worker.silent_s < 110
    worker.stop()
    await task


async def test_metrics_can_be_read_before_there_is_anything_to_tell(worker):
    async with asking(worker) as ask:
        found = await ask.metrics()
    assert found[metric("ready")] == found[metric("open_records")] == found[metric("partitions")] == 0


async def test_what_was_done_is_counted(bus, worker):
    for lane, count in ((Lane.REALTIME, 3), (Lane.BACKFILL, 2)):
        for _ in range(count):
            bus.producer().send(job_message(job(lane=lane, budget_ms=600_000)))
    bus.producer().send(Outgoing(TOPICS.realtime, b"poison", b"poison"))
    async with asking(worker) as ask:
        task = await running(worker.run(), lambda: len(bus.records(TOPICS.results)) == 5)
        await until(lambda: worker.ledger.open() == 0 and worker.intake.read == 6)
        found = await ask.metrics()
        worker.stop()
        await task
    expected = {
        metric("ready"): 1,
        metric("partitions"): 4,
        metric("open_records"): 0,
        metric("answers_total", Lane.REALTIME, ResultStatus.COMPLETE): 3,
        metric("answers_total", Lane.BACKFILL, ResultStatus.COMPLETE): 2,
        metric("answers_total", Lane.REALTIME, ResultStatus.EXPIRED): 0,
        metric("dead_letters_total"): 1,
        metric("late_answers_total"): 0,
        metric("records_read_total"): 6,
        metric("records_read_again_total"): 0,
        metric("waiting_jobs", Lane.REALTIME): 0,
        metric("running_jobs"): 0,
        metric("clock_skew_total", "ahead"): 0,
    }
    assert {name: found[name] for name in expected} == expected
    assert found[metric("poll_silence_seconds")] >= 0


async def test_every_lane_and_status_is_there_from_the_start_so_that_rates_can_be_taken(worker):
    async with asking(worker) as ask:
        task = await running(worker.run(), lambda: worker.ready)
        found = await ask.metrics()
        worker.stop()
        await task
    assert all(metric("answers_total", lane, status) in found for lane in Lane for status in ResultStatus)


async def test_the_operations_guide_lists_every_metric_and_no_other(worker):
    async with asking(worker) as ask:
        task = await running(worker.run(), lambda: worker.ready)
        found = await ask.metrics()
        worker.stop()
        await task
    served = {name for name, _ in found if not name.endswith("_created")}
    assert set(re.findall(r"^\| `(halfsecond_\w+)", GUIDE, re.M)) == served


async def test_nothing_else_is_served(worker):
    async with asking(worker) as ask:
        assert await ask.status("/") == 404

"""What settings make of a worker, and that SIGTERM drains it. Models and broker are stand-ins."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from pipeline import worker_command
from pipeline.bus.errors import BusError
from pipeline.bus.memory import MemoryBus
from pipeline.bus.topics import Topics
from pipeline.load import Load
from pipeline.service.worker import Worker
from pipeline.settings import Settings
from schemas.deadline import Deadline
from schemas.job import Source, VideoJob
from tests.unit.service_parts import job, job_message, result, running, until

TOPICS = Topics("staging.")


class Surroundings:
    """Stands in for all that a worker is built from, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.bus = MemoryBus({topic.name: 2 for topic in TOPICS.all()})
        self.open: list[str] = []
        self.connections: list[Any] = []
        self.workers: list[Worker] = []
        self.workshop = SimpleNamespace(slots=SimpleNamespace(count=2), load=Load())
        self.clock = time.monotonic

    def bus_on(self, connection: Any) -> MemoryBus:
        self.connections.append(connection)
        return self.bus

    def worker(self, *args: Any) -> Worker:
        self.workers.append(Worker(*args))
        return self.workers[-1]

    @asynccontextmanager
    async def fetcher(self, settings: Settings) -> AsyncIterator["Surroundings"]:
        self.open.append("fetcher")
        try:
            yield self
        finally:
            self.open.remove("fetcher")

    @asynccontextmanager
    async def analyzer(self, settings: Settings, *, for_patient: int) -> AsyncIterator["Surroundings"]:
        assert for_patient == max(1, settings.cpu_slots - 1), "backfill never has the last slot"
        self.open.append("analyzer")
        try:
            yield self
        finally:
            self.open.remove("analyzer")

    @asynccontextmanager
    async def fetch(self, source: Source, *, deadline: Deadline) -> AsyncIterator[Path]:
        yield Path("/clip")

    async def analyze(self, job: VideoJob, path: Path, *, deadline: Deadline) -> SimpleNamespace:
        return SimpleNamespace(result=result(job))


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    around = Surroundings()
    monkeypatch.setattr(worker_command, "KafkaBus", around.bus_on)
    monkeypatch.setattr(worker_command, "Worker", around.worker)
    monkeypatch.setattr(worker_command, "open_fetcher", around.fetcher)
    monkeypatch.setattr(worker_command, "open_analyzer", around.analyzer)
    return around


def settings(**changes: Any) -> Settings:
    return Settings(**{"topic_prefix": "staging.", "group_id": "team", "http_port": 0, **changes})


@asynccontextmanager
async def working(around: Surroundings, with_settings: Settings) -> AsyncIterator[Worker]:
    """The command, until SIGTERM."""
    task = await running(
        worker_command._work(with_settings),
        lambda: bool(around.workers) and around.workers[0].ready,
    )
    yield around.workers[0]
    os.kill(os.getpid(), signal.SIGTERM)
    await task


async def test_settings_become_the_workers_policy(around):
    async with working(
        around, settings(worker_places=5, hand_over_rejected=False, kafka_bootstrap="broker:1")
    ) as worker:
        policy = worker._policy
    assert (policy.group_id, policy.places.total, policy.hand_over) == ("team", 5, False)
    assert 1 <= policy.places.backfill < policy.places.total
    assert str(os.getpid()) in policy.worker_id
    assert [connection.bootstrap for connection in around.connections] == ["broker:1"]


@pytest.mark.parametrize(("decode_workers", "places", "decoders"), [(2, 1, 3), (2, 6, 8), (4, 4, 6), (9, 4, 9)])
def test_there_is_a_decoder_for_each_place_and_two_for_backfill_at_least(decode_workers, places, decoders, monkeypatch):
    given: list[Settings] = []

    async def take(settings: Settings) -> None:
        given.append(settings)

    monkeypatch.setattr(worker_command, "_work", take)
    asked = settings(decode_workers=decode_workers, worker_places=places)
    worker_command.run_worker(asked)
    assert given == [asked.model_copy(update={"decode_workers": decoders})]


@pytest.mark.parametrize("cores", [1, 3])
def test_by_default_there_are_two_places_for_each_core_that_the_process_may_use(cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert (settings().worker_places, settings().cpu_slots) == (2 * cores, cores)


async def test_jobs_of_the_prefixed_topics_are_answered_and_sigterm_ends_it_all(around):
    asked = job_message(job("a", budget_ms=600_000))
    around.bus.producer().send(replace(asked, topic=TOPICS.realtime))
    async with working(around, settings()):
        assert around.open == ["fetcher", "analyzer"]
        await until(lambda: len(around.bus.records(TOPICS.results)) == 1)
    assert around.open == []
    assert around.workers[0].ledger.partitions == ()


async def test_health_is_served_on_the_port_that_was_set(around, unused_tcp_port):
    async with (
        working(around, settings(http_port=unused_tcp_port)),
        aiohttp.ClientSession(f"http://127.0.0.1:{unused_tcp_port}") as session,
        session.get("/readyz") as answer,
    ):
        assert answer.status == 200


async def test_a_broker_that_refuses_the_worker_is_an_error_and_everything_is_closed(around):
    task = await running(
        worker_command._work(settings()),
        lambda: bool(around.workers) and around.workers[0].ready,
    )
    around.bus.fail_next("poll", BusError("not allowed", retryable=False))
    with pytest.raises(BusError, match="not allowed"):
        await asyncio.wait_for(task, 20)
    assert around.open == []

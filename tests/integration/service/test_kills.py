"""Workers are killed one after another under load: nothing is lost, nothing is seen twice, and takeovers are quick.

HALFSECOND_KILLS says how many (20 for the product's goal); a few are enough for every day.
"""

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pipeline.bus.base import Partition, Record
from pipeline.bus.headers import header
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.kafka_consumer import SESSION_TIMEOUT_MS
from pipeline.bus.topics import Topics
from pipeline.service.answered import origin_of
from tests.service_checker import Checker
from tests.service_jobs import mixed_jobs

if TYPE_CHECKING:
    from conftest import StartWorker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

log = logging.getLogger(__name__)

KILLS = int(os.environ.get("HALFSECOND_KILLS", "2"))
PER_S = 60
JOB = "sleep 0.01"
"""Short, so that what has piled up meanwhile is soon done: backfill waits until all of realtime is."""

EACH_S = 9.5
"""A session timeout, a takeover, and some time in which all is well."""


@dataclass(frozen=True)
class Kill:
    """``worker``: its id."""

    worker: str
    at_ms: float


def all_results(bootstrap: str, topics: Topics) -> Iterator[Record]:
    reader = KafkaBus(KafkaConnection(bootstrap)).reader(client_id="a test")
    partitions = reader.partitions(topics.results)
    yield from reader.read(reader.bounds(partitions), within_s=30)
    reader.close()


def takeover_s(kill: Kill, answers: list[tuple[int, Partition, str]]) -> float:
    """From the kill to the first answer by somebody else, of the partition of the killed one that waited longest."""
    before: dict[Partition, str] = {}
    after_ms: dict[Partition, int] = {}
    for at_ms, partition, worker in sorted(answers):
        if at_ms <= kill.at_ms:
            before[partition] = worker
        elif worker != kill.worker:
            after_ms.setdefault(partition, at_ms)
    taken_over = [partition for partition, worker in before.items() if worker == kill.worker]
    return max(((after_ms.get(partition, float("inf")) - kill.at_ms) / 1000 for partition in taken_over), default=0.0)


@pytest.mark.parametrize("mode", [(), ("--exactly-once",)], ids=["at-least-once", "exactly-once"])
def test_kills_lose_nothing_double_nothing_and_are_soon_made_good(
    mode: tuple[str, ...], bootstrap: str, topics: Topics, checker: Checker, start_worker: "StartWorker"
) -> None:
    workers = [start_worker(*mode), start_worker(*mode)]
    kills: list[Kill] = []
    with checker.load(mixed_jobs(int(PER_S * EACH_S * (KILLS + 0.5)), JOB), per_s=PER_S):
        checker.wait_for_answers(100)
        for _ in range(KILLS):
            victim = workers.pop(0)
            kills.append(Kill(f"test-{victim.pid}", time.time() * 1000))
            victim.kill()
            workers.append(start_worker(*mode))
            time.sleep(max(0.0, EACH_S - (time.time() - kills[-1].at_ms / 1000)))
    verdict = checker.verdict()
    answers = [
        (record.timestamp_ms, origin.partition, (header(record.headers, "ce_source") or "").rsplit("/", 1)[-1])
        for record in all_results(bootstrap, topics)
        if (origin := origin_of(record.headers)) is not None
    ]
    took_s = [takeover_s(kill, answers) for kill in kills]
    log.info("%s\ntakeovers: %s s", verdict, ", ".join(f"{s:.1f}" for s in sorted(took_s)))
    verdict.require_clean()
    if not mode:  # the transactions of a worker that is not started again end when the broker sees to it
        assert max(took_s) <= SESSION_TIMEOUT_MS / 1000 + 2

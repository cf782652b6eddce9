"""Random load and random faults for HALFSECOND_SOAK_MINUTES (``make soak MINUTES=10``), and the checker's verdict.

HALFSECOND_SOAK_SEED repeats a run's load and faults; when they meet is up to the machine.
"""

import gc
import logging
import os
import random
import time
from collections.abc import Iterator

import pytest

from pipeline.bus.topics import Topics
from scripts.kafka.broker import KafkaBroker
from tests.service_checker import Checker
from tests.service_worker import StartWorker
from tests.soak.account import Size, events, lateness, rss_mib, slope_mib
from tests.soak.faults import Faults
from tests.soak.traffic import Traffic

log = logging.getLogger(__name__)

MINUTES = float(os.environ.get("HALFSECOND_SOAK_MINUTES", "0"))
SEED = os.environ.get("HALFSECOND_SOAK_SEED") or str(random.SystemRandom().randrange(10**6))

pytestmark = [
    pytest.mark.soak,
    pytest.mark.kafka,
    pytest.mark.skipif(not MINUTES, reason="make soak MINUTES=10"),
    pytest.mark.timeout(60 * MINUTES + 600),
    # kafka-python leaves sockets that the broker has closed to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WORKERS = 3
CALM_S = (3.0, 12.0)
"""Between two faults."""

ANSWERED_WITHIN_S = 180.0
SLOPE_MIB = 1.0
LEAST_ANSWERS = 5_000
"""With fewer, the slope says nothing."""


@pytest.fixture(autouse=True)
def collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL, logger="kafka")  # what is logged is kept, sockets with it
    yield
    gc.collect()


def test_every_job_has_one_answer_whatever_breaks(
    own_broker: KafkaBroker, checker: Checker, topics: Topics, start_worker: StartWorker
) -> None:
    ends_s = time.monotonic() + 60 * MINUTES
    chance = random.Random(SEED)
    faults = Faults(own_broker, start_worker, workers=WORKERS, seed=SEED)
    sizes: list[Size] = []
    with Traffic(checker, topics, seed=SEED) as traffic:
        while time.monotonic() < ends_s:
            calm_until_s = time.monotonic() + chance.uniform(*CALM_S)
            while time.monotonic() < calm_until_s:
                checker.wait_for_answers(checker.books.answered + 1)
            sizes.append(Size(checker.books.answered, rss_mib(faults.eldest.pid)))
            faults.strike()
    verdict = checker.verdict(within_s=ANSWERED_WITHIN_S)
    slope = slope_mib(sizes)
    log.info("seed %s: %d messages; faults: %s", SEED, traffic.sent, dict(faults.counts))
    log.info("%s", verdict)
    log.info("%s", lateness(events(own_broker.bootstrap, topics)))
    log.info("eldest worker: %.0f to %.0f MiB, %+.2f a 1,000 answers", sizes[0].rss_mib, sizes[-1].rss_mib, slope)
    verdict.require_clean()
    assert sizes[-1].answers < LEAST_ANSWERS or slope <= SLOPE_MIB

"""Random jobs, and what is none, sent beside whatever else goes on."""

import random
import threading
import time
from types import TracebackType
from typing import Self

from pipeline.bus.topics import Topics
from schemas.job import Lane, VideoJob
from tests.service_checker import Checker
from tests.service_jobs import job, message

TITLES = {
    "": 20,
    "sleep 0.02": 30,
    "sleep 0.15": 15,
    "sleep 0.6": 2,  # longer than its budget: cut short
    "late": 3,  # the store is slow
    "refuse": 3,  # the store is away
    "bad": 2,
    "raise": 1,
    "big 200000": 1,
    "big 2000000": 1,  # more than a message may have
}
"""What the scripted analyst is to do, and how often."""

RATES = (2.0, 10.0, 20.0, 40.0, 80.0)
"""Jobs a second. The last is more than two workers can do."""

EACH_S = 5.0
POISON_SHARE = 0.02
POISON = (b"\x00\x01avro?", b'{"job_id": "\xff"}', b"[1, 2]", b"{}", b"[" * 10_000, None)


class Traffic:
    """Sends on a thread while the context is open, at another rate every few seconds."""

    def __init__(self, checker: Checker, topics: Topics, *, seed: str) -> None:
        self._checker = checker
        self._topics = topics
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, name="traffic")
        self.sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._stop.is_set():
            rate, ends_s = self._chance.choice(RATES), time.monotonic() + EACH_S
            while time.monotonic() < ends_s and not self._stop.wait(self._chance.expovariate(rate)):
                self._send_one()

    def _send_one(self) -> None:
        self.sent += 1
        if self._chance.random() < POISON_SHARE:
            topic = self._topics.of_lane(self._chance.choice(list(Lane)))
            self._checker.send_poison(message(topic, f"poison-{self.sent}", self._chance.choice(POISON)))
        else:
            self._checker.submit(self._job())

    def _job(self) -> VideoJob:
        (title,) = self._chance.choices(list(TITLES), weights=list(TITLES.values()))
        lane = Lane.BACKFILL if self._chance.random() < 0.25 else Lane.REALTIME
        return job(self.sent, title, lane=lane, budget_ms=500)

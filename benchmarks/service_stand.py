"""A broker of our own, and the processes that are measured on it. All of them end with the block."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from benchmarks.machine import TICKS_A_SECOND, cpu_ticks
from benchmarks.media import REPO
from benchmarks.memory import PROC, descendants
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topic, Topics
from scripts.kafka.broker import KafkaBroker, temporary_broker
from scripts.kafka.errors import KafkaUnavailable
from scripts.kafka.jars import fetched

ENDING_S = 10.0
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class NotMeasured(Exception):
    """Raised when something cannot be measured. The message says why, in one line."""


class Program:
    """A process with all its children. ``log`` holds what it says."""

    def __init__(self, command: Sequence[str], *, settings: Mapping[str, str], log: Path) -> None:
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=REPO,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # so that it can be ended with all its children
            )
        self._log = log

    @property
    def pid(self) -> int:
        """Of the process itself."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it is there."""
        return self._process.poll() is None

    def cpu_s(self) -> float:
        """Return what it and its living children have used."""
        return sum(map(cpu_ticks, (self.pid, *descendants(self.pid)))) / TICKS_A_SECOND

    def rss_bytes(self) -> int:
        """Return the resident size of the process itself."""
        return int((PROC / str(self.pid) / "statm").read_text("ascii").split()[1]) * PAGE_BYTES

    def kill(self) -> None:
        """End it as a crash does, its children with it."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Let it drain; kill what is left of it. Safe to call twice."""
        if self.running:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDING_S)
        self.kill()

    def last_words(self) -> str:
        """Return the last line that it has said."""
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else "it said nothing"


class Stand:
    """Fresh topics for each measurement, and programs that work on them."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self.broker = broker
        self.bus = KafkaBus(KafkaConnection(broker.bootstrap))
        self._folder = folder
        self._count = 0

    def fresh_topics(self) -> Topics:
        """Create topics that nobody has used. The broker dates the results too: that is when they are there."""
        topics = Topics(prefix=f"bench-{uuid4().hex[:8]}.")
        self.bus.create(map(_dated_by_the_broker, topics.all()))
        return topics

    @contextmanager
    def program(self, command: Sequence[str], topics: Topics, **settings: str) -> Iterator[Program]:
        """Start ``command`` on ``topics``, as a group of their own; end it with the block."""
        program = self.start(command, topics, **settings)
        try:
            yield program
        finally:
            program.end()

    def start(self, command: Sequence[str], topics: Topics, **settings: str) -> Program:
        """Start ``command``. The caller ends it."""
        self._count += 1
        common = {
            "HALFSECOND_KAFKA_BOOTSTRAP": self.broker.bootstrap,
            "HALFSECOND_TOPIC_PREFIX": topics.prefix,
            "HALFSECOND_GROUP_ID": topics.prefix,
            "HALFSECOND_HTTP_PORT": "0",
        }
        return Program(command, settings={**common, **settings}, log=self._folder / f"{self._count}.log")


@contextmanager
def open_stand() -> Iterator[Stand]:
    """Start a broker. Raises ``NotMeasured`` where there is none to be had."""
    try:
        libs = fetched()
    except KafkaUnavailable as reason:
        raise NotMeasured(str(reason)) from None
    with TemporaryDirectory(prefix="halfsecond-bench-") as folder, temporary_broker(libs) as broker:
        yield Stand(broker, Path(folder))


def _dated_by_the_broker(topic: Topic) -> Topic:
    return replace(topic, config={**topic.config, "message.timestamp.type": "LogAppendTime"})

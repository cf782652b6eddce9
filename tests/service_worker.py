"""A real worker as a process of its own, with an analyst that does what a job's title says.

``python -m tests.service_worker BOOTSTRAP PREFIX GROUP [--places N] [OPTIONS]`` works until SIGTERM.
``WorkerProcess`` starts one from a test.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Self

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from pipeline.plain_text import plain
from pipeline.service.admission import Prospect
from pipeline.service.dispatcher import Analyst, Places
from pipeline.service.letters import unanswered
from pipeline.service.worker import Worker, WorkerPolicy
from pipeline.version import PIPELINE_VERSION
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, MediaError
from schemas.job import Lane, VideoJob
from schemas.result import FusedResult, ResultStatus

REPO = Path(__file__).resolve().parents[1]

READY_WITHIN_S = 90.0
READY = b"assigned: "
"""What the poll thread logs when partitions have come."""


START_S = 0.3
"""What a job takes until the first has told."""

SMOOTHING = 0.1
"""Weight of the newest job: about the last twenty count."""


class ScriptedAnalyst:
    """Implements ``Analyst``: does as a job's title says, and expects of others what realtime jobs took on average."""

    def __init__(self, *, places: int) -> None:
        self._places = places
        self._took_s = START_S

    async def __call__(self, job: VideoJob, *, deadline: Deadline) -> FusedResult:
        """Return the result by ``deadline``. Raises ``RuntimeError`` when told to."""
        began_s = time.monotonic()
        result = await _as_told(job, deadline=deadline)
        if job.lane is Lane.REALTIME:
            self._took_s += SMOOTHING * (time.monotonic() - began_s - self._took_s)
        return result

    def prospect(self) -> Prospect:
        """Return that each job under way has a typical one left, and has a place for itself."""
        return Prospect(cores=self._places, begun=0, left_s=0.0, work_s=self._took_s, span_s=self._took_s)


async def _as_told(job: VideoJob, *, deadline: Deadline) -> FusedResult:
    """Do as the title says.

    ``sleep 0.2`` (s), ``raise``, ``big 2000000`` (bytes), ``late`` and ``refuse`` (there may be an answer later),
    ``bad`` (never).
    """
    verb, _, amount = job.title.partition(" ")
    status = ResultStatus.COMPLETE
    match verb:
        case "sleep":
            wanted_s = float(amount)
            await asyncio.sleep(min(wanted_s, deadline.remaining()))
            status = ResultStatus.PARTIAL if deadline.expired else ResultStatus.COMPLETE
        case "raise":
            raise RuntimeError("as the title says")
        case "late" if job.lane is Lane.REALTIME:
            error = MediaError(ErrorCode.FETCH_TIMED_OUT, "the store is slow", retryable=True)
            return unanswered(job, ResultStatus.EXPIRED, error)
        case "refuse" if job.lane is Lane.REALTIME:
            error = MediaError(ErrorCode.FETCH_FAILED, "the store is away", retryable=True)
            return unanswered(job, ResultStatus.REJECTED, error)
        case "bad":
            return unanswered(job, ResultStatus.REJECTED, MediaError(ErrorCode.NOT_MEDIA, "no film"))
    return FusedResult(
        pipeline_version=PIPELINE_VERSION,
        job_id=job.job_id,
        video_id=job.video_id,
        status=status,
        summary="x" * int(amount) if verb == "big" else "",
    )


async def _work(options: argparse.Namespace) -> None:
    policy = WorkerPolicy(
        worker_id=options.worker_id or f"test-{os.getpid()}",
        group_id=options.group,
        places=Places(total=options.places, backfill=max(1, options.places // 2)),
        hand_over=not options.keep,
        least_s=0.01,
        exactly_once=options.exactly_once,
    )
    bus, topics = KafkaBus(KafkaConnection(options.bootstrap)), Topics(options.prefix)
    scripted = nullcontext(ScriptedAnalyst(places=options.places))
    async with _real_analyst_with_a_broken_llm() if options.broken_llm else scripted as analyst:
        worker = Worker(bus, topics, analyst, policy, wall=lambda: time.time() + options.clock_ahead_s)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        await worker.run()


@asynccontextmanager
async def _real_analyst_with_a_broken_llm() -> AsyncIterator[Analyst]:
    """One that sees and hears, and whose language model fails at every question."""
    # Here, because these bring every model runtime: not for the scripted ones.
    from pipeline.analyze import Analyzer
    from pipeline.app import open_analyzer
    from pipeline.fetch.opening import open_fetcher
    from pipeline.service.analyst import ClipAnalyst
    from pipeline.settings import Settings
    from tests.conftest import SHIPPED_MEDIA
    from tests.unit.scripted_engine import ScriptedEngine

    settings = Settings(llm="off", fetch_roots=(SHIPPED_MEDIA,), decode_workers=4)
    engine = ScriptedEngine()
    engine.fails_after = 0
    async with open_fetcher(settings) as fetcher, open_analyzer(settings) as analyzer:
        workshop = analyzer.workshop
        reader = replace(workshop.tools.reader, llm=engine)
        workshop = replace(workshop, tools=replace(workshop.tools, reader=reader))
        yield ClipAnalyst(fetcher, Analyzer(workshop, clock=time.monotonic))


class WorkerProcess:
    """A worker that a test may kill. ``log`` holds what it has said."""

    def __init__(self, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as words:
            self._process = subprocess.Popen(
                command, cwd=REPO, env=env, stdout=words, stderr=subprocess.STDOUT, start_new_session=True
            )

    @classmethod
    def scripted(cls, bootstrap: str, topics: Topics, group_id: str, *more: str, log: Path) -> Self:
        """Start one with a ``ScriptedAnalyst``."""
        arguments = [bootstrap, topics.prefix, group_id, *more]
        return cls([sys.executable, "-m", "tests.service_worker", *arguments], log=log)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_until_ready(self) -> Self:
        """Return itself once it has partitions. Raises ``AssertionError`` with its log when it gets none."""
        give_up_s = time.monotonic() + READY_WITHIN_S
        while READY not in self.log.read_bytes():
            assert self._process.poll() is None, self.words
            assert time.monotonic() < give_up_s, self.words
            time.sleep(0.02)
        return self

    def kill(self) -> None:
        """End it as the kernel does when memory runs out."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Ask it to end, as an orchestrator does."""
        self._process.terminate()

    def wait(self, *, within_s: float) -> int:
        """Return its exit code."""
        return self._process.wait(within_s)

    def close(self) -> None:
        """Leave nothing of it, its decoders included."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def words(self) -> str:
        """The end of its log, for a failure's text."""
        return plain(self.log.read_text("utf-8", errors="replace")[-4000:])


StartWorker = Callable[..., WorkerProcess]
"""Starts a scripted worker and returns when it has partitions. Further arguments go to its command line."""


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "prefix", "group"):
        parser.add_argument(name)
    parser.add_argument("--places", type=int, default=4)
    parser.add_argument("--broken-llm", action="store_true", help="analyse really, with a language model that fails")
    parser.add_argument("--keep", action="store_true", help="hand nothing over to the backfill lane")
    parser.add_argument("--exactly-once", action="store_true", help="store answers and offsets in transactions")
    parser.add_argument("--worker-id", help="default: of its own")
    parser.add_argument("--clock-ahead-s", type=float, default=0.0, help="by how much its wall clock is wrong")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("kafka").setLevel(logging.ERROR)
    asyncio.run(_work(parser.parse_args()))


if __name__ == "__main__":
    main()

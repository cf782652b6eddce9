"""``python -m benchmarks.service_worker [MS]``: the worker as it is, around stages that take ``MS`` (0) of waiting.

Everything but fetching and analysing is as in production, and is set by the same ``HALFSECOND_`` variables.
"""

import asyncio
import logging
import os
import signal
import socket
import sys

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.topics import Topics
from pipeline.kafka_settings import kafka_connection
from pipeline.service.admission import Prospect
from pipeline.service.dispatcher import Places
from pipeline.service.worker import Worker, WorkerPolicy
from pipeline.settings import Settings, load_settings
from pipeline.version import PIPELINE_VERSION
from schemas.deadline import Deadline
from schemas.job import VideoJob
from schemas.result import FusedResult, ResultStatus


class Idler:
    """Implements ``Analyst`` without looking at anything."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s

    async def __call__(self, job: VideoJob, *, deadline: Deadline) -> FusedResult:
        """Return a complete result without findings."""
        del deadline
        if self._takes_s:
            await asyncio.sleep(self._takes_s)
        return FusedResult(
            pipeline_version=PIPELINE_VERSION,
            job_id=job.job_id,
            video_id=job.video_id,
            source_uri=job.source.uri,
            status=ResultStatus.COMPLETE,
        )

    def prospect(self) -> Prospect:
        """Return that nothing is in the way."""
        return Prospect(cores=1, begun=0, left_s=0.0, work_s=0.0, span_s=0.0)


async def _work(settings: Settings, *, takes_s: float) -> None:
    policy = WorkerPolicy(
        worker_id=f"{socket.gethostname()}-{os.getpid()}",
        group_id=settings.group_id,
        places=Places(total=settings.worker_places, backfill=1),
        hand_over=settings.hand_over_rejected,
    )
    bus = KafkaBus(kafka_connection(settings))
    worker = Worker(bus, Topics(settings.topic_prefix), Idler(takes_s), policy)
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, worker.stop)
    await worker.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_work(load_settings(), takes_s=float(sys.argv[1]) / 1e3 if len(sys.argv) > 1 else 0.0))

"""``halfsecond worker``: answers jobs from the bus until it is told to stop."""

import asyncio
import gc
import logging
import os
import signal
import socket
from contextlib import AsyncExitStack

from pipeline.app import open_analyzer
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.topics import Topics
from pipeline.fetch.opening import open_fetcher
from pipeline.kafka_settings import kafka_connection
from pipeline.service.analyst import ClipAnalyst
from pipeline.service.dispatcher import Places
from pipeline.service.health import health_server
from pipeline.service.worker import Worker, WorkerPolicy
from pipeline.settings import Settings

log = logging.getLogger(__name__)

DECODERS_OF_BACKFILL = 2
"""A backfill job may wait for a slot with its decoders borrowed: realtime is not to miss them."""


def run_worker(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT, then drain. Raises ``ConfigurationError`` and ``BusError``."""
    decoders = max(settings.decode_workers, settings.worker_places + DECODERS_OF_BACKFILL)
    asyncio.run(_work(settings.model_copy(update={"decode_workers": decoders})))


async def _work(settings: Settings) -> None:
    async with AsyncExitStack() as stack:
        fetcher = await stack.enter_async_context(open_fetcher(settings))
        log.info("loading models")
        for_backfill = max(1, settings.cpu_slots - 1)  # realtime that comes finds a slot at once
        analyzer = await stack.enter_async_context(open_analyzer(settings, for_patient=for_backfill))
        policy = WorkerPolicy(
            worker_id=settings.worker_id or f"{socket.gethostname()}-{os.getpid()}",
            group_id=settings.group_id,
            places=Places(total=settings.worker_places, backfill=1),
            hand_over=settings.hand_over_rejected,
            exactly_once=settings.exactly_once,
        )
        bus = KafkaBus(kafka_connection(settings))
        worker = Worker(bus, Topics(settings.topic_prefix), ClipAnalyst(fetcher, analyzer), policy)
        port = await stack.enter_async_context(health_server(worker, host=settings.http_host, port=settings.http_port))
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, worker.stop)
        log.info("worker %s: health on port %d", policy.worker_id, port)
        gc.collect()
        gc.freeze()  # a full collection over all that the models brought takes 50 ms, in the middle of a job
        await worker.run()

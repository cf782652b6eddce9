"""What orchestrators and Prometheus ask a worker: ``/livez``, ``/readyz``, ``/metrics``."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline.service.worker import Worker
from schemas.job import Lane
from schemas.result import ResultStatus

HANGS_S = 15.0
"""A poll takes 0.1 s, and with a rebalance or a slow broker some seconds. A thread silent for longer hangs."""


class WorkerMetrics(Collector):
    """The worker's counters and gauges, read when they are asked for."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        """Return everything that is known now."""
        worker = self._worker
        yield _gauge("halfsecond_ready", "1 while the worker takes jobs", int(worker.ready))
        yield _gauge("halfsecond_poll_silence_seconds", "Since the poll thread came round", worker.silent_s)
        yield _gauge("halfsecond_open_records", "Records begun and not stored", worker.ledger.open())
        yield _gauge("halfsecond_partitions", "Partitions of this worker", len(worker.ledger.partitions))
        skew = CounterMetricFamily("halfsecond_clock_skew", "Corrected timestamps", labels=["direction"])
        skew.add_metric(["ahead"], worker.skew.ahead)
        skew.add_metric(["behind"], worker.skew.behind)
        yield skew
        yield from self._jobs()

    def _jobs(self) -> Iterator[Metric]:
        if (takeover := self._worker.takeover) is not None:
            text = "Searches for answers of earlier owners that were given up: duplicates may have followed"
            yield _counter("halfsecond_incomplete_takeovers", text, takeover.incomplete)
        desk, dispatcher, intake = self._worker.desk, self._worker.dispatcher, self._worker.intake
        if desk is None or dispatcher is None or intake is None:
            return
        answers = CounterMetricFamily("halfsecond_answers", "Terminal answers", labels=["lane", "status"])
        waiting = GaugeMetricFamily("halfsecond_waiting_jobs", "Jobs without a place", labels=["lane"])
        for lane in Lane:
            waiting.add_metric([lane], dispatcher.waiting(lane))
            for status in ResultStatus:
                answers.add_metric([lane, status], desk.counts[lane, status])
        yield from (answers, waiting)
        yield _counter("halfsecond_late_answers", "Answers after their deadline", desk.late)
        yield _counter("halfsecond_dead_letters", "Messages and clips that cannot be answered", desk.dead_letters)
        yield _counter("halfsecond_records_read", "Records begun", intake.read)
        yield _counter("halfsecond_records_read_again", "Records that were answered before", intake.read_again)
        yield _gauge("halfsecond_running_jobs", "Jobs with a place", dispatcher.running)


@asynccontextmanager
async def health_server(worker: Worker, *, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context is open; yield the port (of ``port`` 0 the one that was free). Raises ``OSError``."""
    pages = _Pages(worker)
    app = web.Application()
    app.add_routes(
        [web.get("/livez", pages.livez), web.get("/readyz", pages.readyz), web.get("/metrics", pages.metrics)]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class _Pages:
    """What is served."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._registry = CollectorRegistry()
        self._registry.register(WorkerMetrics(worker))

    async def livez(self, _: web.Request) -> web.Response:
        return _told("the poll thread hangs" if self._hangs else None)

    async def readyz(self, _: web.Request) -> web.Response:
        return _told("not ready" if self._hangs or not self._worker.ready else None)

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @property
    def _hangs(self) -> bool:
        return self._worker.silent_s >= HANGS_S


def _told(trouble: str | None) -> web.Response:
    return web.Response(text="ok\n") if trouble is None else web.Response(text=f"{trouble}\n", status=503)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)

"""``halfsecond worker`` itself on real clips, with all that can break around it: decoders, stores, disk, memory."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from schemas.errors import ErrorCode
from schemas.job import Lane
from schemas.result import ResultStatus
from tests.conftest import SHIPPED_MEDIA
from tests.fetching import RawServer, dead, dripping, raw_server, whole
from tests.media_samples import Film, write_clip
from tests.service_checker import Answer, Checker
from tests.service_jobs import job
from tests.service_worker import WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.models]

CLIP = SHIPPED_MEDIA / "real" / "store_aisle.mp4"
TALK = SHIPPED_MEDIA / "composite" / "talk_en_jfk.mp4"

DECODER_BYTES = 190 * 1024**2
"""Enough for any clip here, and not for a frame of 8K."""

PATIENT_MS = 20_000
"""A budget that no busy machine overruns."""


@dataclass(frozen=True, slots=True)
class Service:
    """A worker at work, what it may read, and who counts."""

    worker: WorkerProcess
    checker: Checker
    store: RawServer
    folder: Path

    def ask(self, place: Path | str, *, budget_ms: int = PATIENT_MS) -> list[Answer]:
        """Have a clip analysed in the realtime lane; return all its answers."""
        uri = place if isinstance(place, str) else place.as_uri()
        return self.checker.answers_to(job(uuid4().hex, budget_ms=budget_ms, uri=uri), within_s=60)

    def works(self) -> None:
        """Have a good clip answered as if nothing had happened."""
        assert [answer.status for answer in self.ask(CLIP)] == [ResultStatus.COMPLETE]

    @property
    def decoders(self) -> list[int]:
        """Process ids of the worker's children."""
        tasks = Path(f"/proc/{self.worker.pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text("ascii").split()]


@contextmanager
def store_in_a_thread() -> Iterator[RawServer]:
    """An HTTP server for tests that wait without a loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="store")
    thread.start()
    context = raw_server()
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(10)
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Give ``folder`` less room than a clip takes, if we may."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(scope="module")
def service(broker: str, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One worker for all tests here: each must leave it able to work."""
    folder = tmp_path_factory.mktemp("clips")
    cache = tmp_path_factory.mktemp("cache")
    (cache / "weights").symlink_to(weights)
    (cache / "clips").mkdir(mode=0o700)
    topics = Topics(prefix=f"test-{uuid4().hex[:12]}.")
    KafkaBus(KafkaConnection(broker)).create(topics.all())
    with store_in_a_thread() as store, full_disk(cache / "clips"):
        env = {
            **os.environ,
            "HALFSECOND_LLM": "off",
            "HALFSECOND_KAFKA_BOOTSTRAP": broker,
            "HALFSECOND_TOPIC_PREFIX": topics.prefix,
            "HALFSECOND_GROUP_ID": f"{topics.prefix}workers",
            "HALFSECOND_HTTP_PORT": "0",
            "HALFSECOND_CACHE_DIR": str(cache),
            "HALFSECOND_DECODE_WORKERS": "4",
            "HALFSECOND_DECODER_MEMORY_BYTES": str(DECODER_BYTES),
            "HALFSECOND_FETCH_ROOTS": json.dumps([str(SHIPPED_MEDIA), str(folder)]),
            "HALFSECOND_FETCH_ALLOW_PRIVATE": '["127.0.0.1/32"]',
            "HALFSECOND_FETCH_PORTS": f"[{store.port}]",
            "HALFSECOND_FETCH_TIMEOUT_S": "1",
            "HALFSECOND_S3_BUCKETS": '["clips"]',
            "HALFSECOND_S3_ENDPOINT": f"http://127.0.0.1:{store.port}",
            "HALFSECOND_S3_ACCESS_KEY_ID": "key",
            "HALFSECOND_S3_SECRET_ACCESS_KEY": "secret",
        }
        log = tmp_path_factory.mktemp("log") / "worker.log"
        worker = WorkerProcess([sys.executable, "-m", "pipeline", "worker"], log=log, env=env)
        checker = Checker(broker, topics, group_id=f"{topics.prefix}workers")
        try:
            yield Service(worker.wait_until_ready(), checker, store, folder)
        finally:
            checker.close()
            worker.close()


def test_a_decoder_that_hangs_costs_one_clip_its_answer_and_the_worker_nothing(service: Service) -> None:
    stopped = service.decoders
    for decoder in stopped:
        os.kill(decoder, signal.SIGSTOP)
    before = service.checker.books.answered
    service.checker.submit(job("hung", budget_ms=1_000, uri=CLIP.as_uri()))
    service.checker.wait_for_answers(before + 1)
    for decoder in stopped:
        with suppress(ProcessLookupError):
            os.kill(decoder, signal.SIGCONT)  # else the backfill lane waits for them for half a minute
    service.works()


def test_decoders_that_crash_take_a_clip_each_with_them_at_most(service: Service) -> None:
    crashed = service.decoders
    for decoder in crashed:
        os.kill(decoder, signal.SIGKILL)
    for _ in crashed:
        service.ask(CLIP)
    service.works()


def test_a_clip_that_eats_memory_is_answered_and_the_next_one_too(service: Service) -> None:
    large = Film(codec="mpeg4", frames=1, width=7680, height=4320, b_frames=0)
    (answer,) = service.ask(write_clip(service.folder / "large.mp4", large))
    assert answer.code is ErrorCode.DECODER_OUT_OF_MEMORY or answer.status is ResultStatus.PARTIAL
    service.works()


def test_a_file_100_mb_over_the_limit_is_too_large(service: Service) -> None:
    huge = service.folder / "huge.mp4"
    with huge.open("wb") as file:
        file.truncate(612 * 1024**2)  # a hole: it takes no room
    (answer,) = service.ask(huge)
    assert (answer.status, answer.code) == (ResultStatus.REJECTED, ErrorCode.TOO_LARGE)


@pytest.mark.parametrize(
    "content", [b"", b"<html>not found</html>", os.urandom(50_000)], ids=["empty", "text", "noise"]
)
def test_what_is_no_clip_is_rejected_for_good(service: Service, content: bytes) -> None:
    path = service.folder / f"{uuid4().hex}.mp4"
    path.write_bytes(content)
    (answer,) = service.ask(path)
    assert (answer.status, answer.retryable) == (ResultStatus.REJECTED, False)


def test_a_file_that_is_not_ours_to_read_is_refused(service: Service) -> None:
    (answer,) = service.ask(Path("/etc/passwd"))
    assert (answer.status, answer.code) == (ResultStatus.REJECTED, ErrorCode.FETCH_REFUSED)


def test_a_clip_in_a_store_is_answered_though_the_disk_is_full(service: Service) -> None:
    uri = service.store.serve("/talk.mp4", whole(TALK.read_bytes()))
    assert [answer.status for answer in service.ask(uri)] == [ResultStatus.COMPLETE]


def test_a_store_that_hangs_is_given_up_and_asked_again_in_the_backfill_lane(service: Service) -> None:
    live, later = service.ask(service.store.serve("/dead.mp4", dead), budget_ms=700)
    assert live.status is ResultStatus.EXPIRED
    assert later.code is ErrorCode.FETCH_TIMED_OUT


@pytest.mark.parametrize("trouble", [dead, whole(b"", status="503 Slow Down")], ids=["hangs", "is overloaded"])
def test_an_object_store_that_is_in_trouble_is_asked_again_in_the_backfill_lane(
    service: Service, trouble: Callable[[asyncio.StreamWriter], Awaitable[None]]
) -> None:
    service.store.serve_all(trouble)
    try:
        answers = service.ask("s3://clips/talk.mp4", budget_ms=700)
    finally:
        service.store.answer_to_all = None
    assert [answer.code in {ErrorCode.FETCH_TIMED_OUT, ErrorCode.FETCH_FAILED} for answer in answers] == [True, True]


def test_a_store_that_drips_is_given_up(service: Service) -> None:
    live, _ = service.ask(service.store.serve("/slow.mp4", dripping(200_000)), budget_ms=700)
    assert live.status is ResultStatus.EXPIRED


def test_a_store_that_is_down_may_come_back_until_the_backfill_lane_asks(service: Service) -> None:
    uri = service.store.serve("/down.mp4", whole(b"", status="503 Service Unavailable"))
    answers = service.ask(uri)
    assert {answer.code for answer in answers} == {ErrorCode.FETCH_FAILED}
    assert len(answers) == 2


def test_stores_that_hang_do_not_keep_other_clips_waiting(service: Service) -> None:
    uri = service.store.serve("/dead.mp4", dead)
    service.checker.submit(*(job(uuid4().hex, uri=uri, lane=Lane.BACKFILL) for _ in range(4)))
    service.works()


def test_every_job_of_these_tests_has_been_answered_once(service: Service) -> None:
    service.checker.verdict().require_clean()


def test_at_the_end_the_worker_leaves_in_order(service: Service) -> None:
    service.worker.terminate()
    assert service.worker.wait(within_s=20) == 0, service.worker.words

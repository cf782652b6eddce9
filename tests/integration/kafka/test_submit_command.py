"""``halfsecond submit`` and ``halfsecond results`` as a user runs them, over a real broker."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.bus.base import Consumer, Outgoing, Partition
from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from pipeline.ingest.message import parse_job
from schemas.job import Lane, VideoJob
from schemas.result import FusedResult, ResultStatus


def environment(broker: str, topics: Topics) -> dict[str, str]:
    return {
        **os.environ,
        "HALFSECOND_KAFKA_BOOTSTRAP": broker,
        "HALFSECOND_TOPIC_PREFIX": topics.prefix,
        "PYTHONWARNINGS": "ignore",
    }


def halfsecond(
    *arguments: str | Path, env: dict[str, str] | None = None, check: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"not really a clip")
    return path


class Watching:
    """A rebalance listener that does nothing."""

    def assigned(self, partitions: list[Partition]) -> None: ...
    def revoked(self, partitions: list[Partition]) -> None: ...
    def lost(self, partitions: list[Partition]) -> None: ...


def jobs_on(consumer: Consumer, count: int) -> list[VideoJob]:
    found: list[VideoJob] = []
    for _ in range(200):
        found += [parse_job(record.value, record.headers) for record in consumer.poll(0.1)]
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} jobs came")


@contextmanager
def reading(bus: KafkaBus, topic: str) -> Iterator[Consumer]:
    consumer = bus.consumer(group_id=f"{topic}.test", client_id="a test")
    consumer.subscribe([topic], Watching())
    try:
        yield consumer
    finally:
        consumer.close()


@contextmanager
def answering(bus: KafkaBus, topics: Topics, *, status: ResultStatus) -> Iterator[None]:
    """A worker that answers every realtime job at once, without looking."""
    stop = threading.Event()

    def work() -> None:
        producer = bus.producer(client_id="a test")
        with reading(bus, topics.realtime) as consumer:
            while not stop.is_set():
                for record in consumer.poll(0.1):
                    job = parse_job(record.value, record.headers)
                    result = FusedResult(
                        pipeline_version="test",
                        job_id=job.job_id,
                        video_id=job.video_id,
                        status=status,
                        summary="all \x1b[31mred",
                    )
                    value = result.model_dump_json().encode()
                    producer.send(Outgoing(topics.results, key=job.video_id.encode(), value=value))
        producer.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def bus(broker: str) -> KafkaBus:
    return KafkaBus(KafkaConnection(broker))


def test_a_job_arrives_on_the_topic_of_its_lane(broker, topics, bus, clip):
    env = environment(broker, topics)
    told = halfsecond("submit", clip, "--lane", "backfill", "--title", "A title", env=env).stdout
    with reading(bus, topics.backfill) as consumer:
        [job] = jobs_on(consumer, 1)
    assert told.split()[0] == job.job_id
    assert (job.title, job.lane, job.budget_ms) == ("A title", Lane.BACKFILL, None)
    assert (job.source.uri, job.source.size_bytes) == (clip.as_uri(), 17)


def test_waiting_shows_the_answer(broker, topics, bus, clip):
    with answering(bus, topics, status=ResultStatus.COMPLETE):
        done = halfsecond("submit", clip, "--wait", "--timeout-s", "30", env=environment(broker, topics))
    assert "complete" in done.stdout
    assert "all [31mred" in done.stdout
    assert "\x1b" not in done.stdout


def test_an_answer_that_is_a_refusal_has_its_exit_status(broker, topics, bus, clip):
    with answering(bus, topics, status=ResultStatus.REJECTED):
        done = halfsecond("submit", clip, "--wait", "--json", env=environment(broker, topics), check=3)
    assert FusedResult.model_validate_json(done.stdout).status is ResultStatus.REJECTED


def test_an_answer_that_does_not_come_is_missed(broker, topics, clip):
    done = halfsecond("submit", clip, "--wait", "--timeout-s", "0.5", env=environment(broker, topics), check=3)
    assert "no answer yet for clip.mp4-" in done.stderr


def test_results_that_are_there_are_shown_and_it_ends(broker, topics, bus, clip):
    env = environment(broker, topics)
    with answering(bus, topics, status=ResultStatus.PARTIAL):
        halfsecond("submit", clip, "--video-id", "one", "--wait", env=env)
        halfsecond("submit", clip, "--video-id", "two", "--wait", env=env)
    lines = halfsecond("results", "--json", env=env).stdout.splitlines()
    assert sorted(json.loads(line)["video_id"] for line in lines) == ["one", "two"]


def test_following_shows_answers_as_they_come_and_ends_clean(broker, topics, bus, clip):
    env = environment(broker, topics)
    command = [sys.executable, "-m", "pipeline", "results", "--follow"]
    with (
        answering(bus, topics, status=ResultStatus.COMPLETE),
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True) as following,
    ):
        assert following.stdout is not None
        came = threading.Event()
        lines: list[str] = []

        def read() -> None:
            assert following.stdout is not None
            lines.append(following.stdout.readline())
            came.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        for _ in range(10):  # until it has joined, answers pass it by
            halfsecond("submit", clip, "--wait", env=env)
            if came.wait(0.5):
                break
        following.send_signal(signal.SIGINT)
        reader.join(30)
        _, errors = following.communicate(timeout=30)
    assert "complete" in lines[0]
    assert following.returncode == 130
    assert errors == ""


def test_a_broker_that_is_not_there_is_said_within_seconds(clip):
    done = halfsecond("submit", clip, "--bootstrap", "127.0.0.1:1", check=1)
    assert "127.0.0.1:1" in done.stderr
    assert "check that it runs" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_topics_that_are_not_there_are_said(broker, clip):
    env = environment(broker, Topics("never-created."))
    done = halfsecond("submit", clip, env=env, check=1)
    assert "never-created.video.jobs.realtime" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["submit"], ["submit", "a", "b", "--video-id", "c"], ["submit", "a", "--lane", "fast"], ["results", "now"]],
)
def test_wrong_usage_ends_with_2_and_a_hint(arguments):
    assert "Usage" in halfsecond(*arguments, check=2).stderr


def test_a_file_that_is_not_there_is_named_before_anything_is_sent(tmp_path):
    done = halfsecond("submit", tmp_path / "nowhere.mp4", "--bootstrap", "127.0.0.1:1", check=3)
    assert "nowhere.mp4" in done.stderr


def test_help_teaches():
    assert "Exit status" in halfsecond("submit", "--help").stdout
    assert "--follow" in halfsecond("results", "--help").stdout

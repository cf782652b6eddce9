"""For those who have clips analysed: send jobs, read the answers.

bus = KafkaBus(KafkaConnection("127.0.0.1:9092"))
with Answers(bus) as answers:
    submit([job_of("clip.mp4")], bus=bus)
    for answer in answers.follow():
        ...
"""

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from pydantic import ValidationError

from pipeline.bus.base import Bus, Outgoing, Partition, Record
from pipeline.bus.errors import BusError
from pipeline.bus.headers import CloudEvent, EventType, TraceContext, event_headers
from pipeline.bus.topics import Topics
from pipeline.plain_text import plain
from schemas.errors import ErrorCode, MediaError
from schemas.events import DeadLetter
from schemas.job import Lane, Source, VideoJob
from schemas.result import FusedResult

log = logging.getLogger(__name__)

Answer = FusedResult | DeadLetter
"""What becomes of a job."""

CLIENT = "halfsecond-client"
STORED_WITHIN_S = 10.0
READ_BYTES = 1024 * 1024
JOIN_WITHIN_S = 15.0


def source_of(place: str) -> Source:
    """Return where a clip is: a path, or a URI. Of a local file also its size and hash, read here and now.

    Raises ``MediaError`` when a local file cannot be read.
    """
    scheme = urlsplit(place).scheme
    if scheme in ("http", "https", "s3"):
        return Source(uri=place)
    path = Path(unquote(urlsplit(place).path)) if scheme == "file" else Path(place)
    try:
        sha256, size_bytes = _hash(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise MediaError(ErrorCode.NOT_READABLE, f"{plain(str(path))}: {reason}") from error
    return Source(uri=path.absolute().as_uri(), sha256=sha256, size_bytes=size_bytes)


def _hash(path: Path) -> tuple[str, int]:
    digest, size_bytes = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
            size_bytes += len(block)
    return digest.hexdigest(), size_bytes


def video_id_of(source: Source) -> str:
    """Return a readable id that differs for different clips: the file's name and a part of its hash, or its URI's."""
    name = plain(unquote(urlsplit(source.uri).path.rsplit("/", 1)[-1]), limit=100)
    return f"{name}-{(source.sha256 or hashlib.sha256(source.uri.encode()).hexdigest())[:12]}"


def job_of(
    place: str,
    *,
    lane: Lane = Lane.REALTIME,
    title: str = "",
    description: str = "",
    budget_ms: int | None = None,
    video_id: str | None = None,
) -> VideoJob:
    """Return the job of one clip. Without a budget, realtime has 500 ms and backfill all the time it needs.

    Raises ``MediaError`` when a local file cannot be read.
    """
    source = source_of(place)
    default_ms = VideoJob.model_fields["budget_ms"].default if lane is Lane.REALTIME else None
    return VideoJob(
        video_id=video_id or video_id_of(source),
        source=source,
        title=title,
        description=description,
        lane=lane,
        budget_ms=budget_ms or default_ms,
    )


def job_message(job: VideoJob, *, topics: Topics, now: datetime) -> Outgoing:
    """Return the message of a job: keyed by its video, the root of a new trace."""
    event = CloudEvent(job.job_id, EventType.JOB, source=CLIENT, time=now)
    dated = job.model_copy(update={"ingested_at": job.ingested_at or now})
    return Outgoing(
        topics.of_lane(job.lane),
        key=job.video_id.encode(),
        value=dated.model_dump_json().encode(),
        headers=event_headers(event, TraceContext.root()),
    )


def submit(jobs: Iterable[VideoJob], *, bus: Bus, topics: Topics | None = None) -> int:
    """Send ``jobs`` and wait until they are stored; return how many. Raises ``BusError`` when one was not."""
    failed: list[Exception] = []
    count = 0
    producer = bus.producer(client_id=CLIENT)
    try:
        for job in jobs:
            message = job_message(job, topics=topics or Topics(), now=datetime.now(UTC))
            producer.send(message, partial(_keep_error, failed))
            count += 1
        stored = producer.flush(STORED_WITHIN_S)
    finally:
        producer.close()
    if failed:
        raise failed[0]
    if not stored:
        raise BusError(f"the broker did not store all jobs within {STORED_WITHIN_S:.0f} s", retryable=True)
    return count


def _keep_error(failed: list[Exception], error: Exception | None) -> None:
    if error is not None:
        failed.append(error)


class Answers:
    """Reads results and dead letters, as a group of its own. A context manager: ready to read once it is entered."""

    def __init__(self, bus: Bus, topics: Topics | None = None, *, from_start: bool = False) -> None:
        """Take whether to begin with the oldest answer; else only answers to come are read. Raises ``BusError``."""
        self._topics = topics or Topics()
        self._consumer = bus.consumer(group_id=f"{CLIENT}-{uuid4().hex}", client_id=CLIENT, from_end=not from_start)
        self._held: set[Partition] = set()
        self._early: list[Record] = []

    def __enter__(self) -> Self:
        """Join. Raises ``BusError``, also when the topics are not there."""
        self._consumer.subscribe([self._topics.results, self._topics.dead_letters], self)
        ends_s = time.monotonic() + JOIN_WITHIN_S
        while not self._held:
            if time.monotonic() > ends_s:
                self._consumer.close()
                raise BusError(f"no partition of {self._topics.results} in {JOIN_WITHIN_S:.0f} s", retryable=True)
            self._early += self._consumer.poll(0.1)
        self._consumer.lag()  # asks where "now" is, so that nothing from here on is missed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave."""
        self._consumer.close()

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Be told by the consumer."""
        self._held |= set(partitions)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Be told by the consumer."""
        self._held -= set(partitions)

    lost = revoked

    def follow(self) -> Iterator[Answer]:
        """Yield answers as they come, without end."""
        while True:
            yield from self._poll(0.5)

    def present(self) -> Iterator[Answer]:
        """Yield the answers that are there already."""
        while self._early or any(self._consumer.lag().values()):
            yield from self._poll(0.5)

    def to(self, job_ids: Iterable[str], *, within_s: float) -> Iterator[Answer]:
        """Yield the answer to each of ``job_ids`` as it comes; end early when time is up."""
        waiting = set(job_ids)
        ends_s = time.monotonic() + within_s
        while waiting and time.monotonic() < ends_s:
            for answer in self._poll(0.1):
                if answer.job_id in waiting:
                    waiting.discard(answer.job_id)
                    yield answer

    def _poll(self, timeout_s: float) -> Iterator[Answer]:
        early, self._early = self._early, []
        for record in early or self._consumer.poll(timeout_s):
            answer = self._read(record)
            if answer is not None:
                yield answer

    def _read(self, record: Record) -> Answer | None:
        if record.value is None:  # an answer that was deleted
            return None
        model = FusedResult if record.partition.topic == self._topics.results else DeadLetter
        try:
            return model.model_validate_json(record.value)
        except ValidationError as error:
            log.warning("%s, offset %d is no answer: %s", record.partition, record.offset, error)
            return None

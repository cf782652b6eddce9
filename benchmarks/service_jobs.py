"""The jobs of the benchmark, and how they are sent: all at once, or open-loop at seeded random moments."""

import itertools
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pipeline.bus.base import Bus
from pipeline.bus.topics import Topics
from pipeline.client import job_message, source_of
from schemas.job import Lane, Source, VideoJob

HOUR_MS = 3_600_000
"""A budget that nothing in a benchmark exceeds."""

SAMPLE_SOURCE = Source(uri="file:///clips/2026/clip.mp4", sha256="0" * 64, size_bytes=1_234_567)
"""Of clips that nobody opens."""


def made_up_jobs(
    count: int, *, first: int = 0, budget_ms: int | None = HOUR_MS, lane: Lane = Lane.REALTIME
) -> Iterator[VideoJob]:
    """Yield jobs of clips that are not there, as large as real messages are."""
    for number in range(first, first + count):
        yield VideoJob(
            video_id=f"clip-{number}",
            source=SAMPLE_SOURCE,
            title="How to parallel park in one go",
            description="Three steps, shown on a quiet street. " * 5,
            budget_ms=budget_ms,
            lane=lane,
        )


def clip_jobs(
    clips: Sequence[Path], *, budget_ms: int | None = 500, lane: Lane = Lane.REALTIME, first: int = 0
) -> Iterator[VideoJob]:
    """Yield jobs of real clips, without end: each clip in turn, every job a video of its own."""
    sources = [source_of(str(clip)) for clip in clips]
    for number in itertools.count(first):
        source = sources[number % len(sources)]
        yield VideoJob(video_id=f"{lane}-{number}", source=source, budget_ms=budget_ms, lane=lane)


def arrivals_s(*, rate: float, seconds: float, seed: str) -> Iterator[float]:
    """Yield the moments, in seconds from the start, of a Poisson process of ``rate`` events a second."""
    chance = random.Random(seed)
    at_s = chance.expovariate(rate)
    while at_s < seconds:
        yield at_s
        at_s += chance.expovariate(rate)


def send_open_loop(jobs: Iterable[VideoJob], moments_s: Iterable[float], *, bus: Bus, topics: Topics) -> int:
    """Send one job at each moment, however long the answers take; return how many. Blocks until the last is stored."""
    producer = bus.producer(client_id="benchmark-load")
    began_s = time.monotonic()
    count = 0
    try:
        for at_s, job in zip(moments_s, jobs, strict=False):
            time.sleep(max(0.0, began_s + at_s - time.monotonic()))
            producer.send(job_message(job, topics=topics, now=datetime.now(UTC)))
            count += 1
    finally:
        producer.close()
    return count

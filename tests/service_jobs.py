"""Jobs for the scripted workers."""

from pipeline.bus.base import Outgoing
from schemas.job import Lane, Source, VideoJob


def job(
    number: int | str, title: str = "", *, lane: Lane = Lane.REALTIME, budget_ms: int | None = 30_000, uri: str = ""
) -> VideoJob:
    """A job whose title says what the scripted analyst does. Backfill has no deadline."""
    return VideoJob(
        job_id=f"job-{number}",
        video_id=f"video-{number}",
        source=Source(uri=uri or f"file:///clips/{number}.mp4"),
        title=title,
        lane=lane,
        budget_ms=budget_ms if lane is Lane.REALTIME else None,
    )


def mixed_jobs(count: int, title: str = "sleep 0.02", *, budget_ms: int = 30_000) -> list[VideoJob]:
    """Three of realtime to one of backfill."""
    return [
        job(number, title, lane=Lane.BACKFILL if number % 4 == 3 else Lane.REALTIME, budget_ms=budget_ms)
        for number in range(count)
    ]


def message(topic: str, key: str, value: bytes | None, **headers: bytes) -> Outgoing:
    """Any message."""
    return Outgoing(topic, key.encode(), value, tuple(headers.items()))

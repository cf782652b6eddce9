"""The topics: their names, how they are split, how long and how large their messages may be. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.job import Lane

MAX_MESSAGE_BYTES = 1024 * 1024
"""Kafka's own default. Clips travel by reference, so that the largest message, a result, stays far below."""

_DAY_MS = 24 * 60 * 60 * 1000
_PARTITIONS = 12
"""A partition is read by one worker: so many workers can share the load. More can be added later, never fewer."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is created. ``config`` holds the broker's own names."""

    name: str
    partitions: int
    config: Mapping[str, str]
    purpose: str


@dataclass(frozen=True, slots=True)
class Topics:
    """The names, behind an optional prefix that separates installations which share a broker."""

    prefix: str = ""

    @property
    def realtime(self) -> str:
        """Jobs to be answered within their budget."""
        return f"{self.prefix}video.jobs.realtime"

    @property
    def backfill(self) -> str:
        """Jobs to be answered when there is time."""
        return f"{self.prefix}video.jobs.backfill"

    @property
    def results(self) -> str:
        """One answer a job; compacted to the newest of each ``video_id``, which is the key."""
        return f"{self.prefix}video.results"

    @property
    def dead_letters(self) -> str:
        """Messages that cannot be answered, and why."""
        return f"{self.prefix}video.dead-letters"

    @property
    def sla(self) -> str:
        """One line a job: in time or not, and what was late."""
        return f"{self.prefix}video.sla"

    @property
    def written(self) -> tuple[str, ...]:
        """Those that workers write to."""
        return (self.results, self.dead_letters, self.sla, self.backfill)

    def of_lane(self, lane: Lane) -> str:
        """Return where the jobs of ``lane`` go."""
        return {Lane.REALTIME: self.realtime, Lane.BACKFILL: self.backfill}[lane]

    def lane_of(self, topic: str) -> Lane:
        """Return whose jobs come from ``topic``. Raises ``KeyError`` for a topic without jobs."""
        return {self.of_lane(lane): lane for lane in Lane}[topic]

    def all(self) -> tuple[Topic, ...]:
        """Return every topic as it is to be created."""
        return (
            Topic(self.realtime, _PARTITIONS, _config(days=1), "Clips to analyse within their budget"),
            Topic(self.backfill, _PARTITIONS, _config(days=14), "Clips to analyse when there is time"),
            Topic(self.results, _PARTITIONS, _config(cleanup="compact"), "What was understood, newest a video"),
            Topic(self.dead_letters, 3, _config(days=30), "Messages that could not be answered, and why"),
            Topic(self.sla, 3, _config(days=7), "One line a job: in time or not, and what was late"),
        )


def _config(*, cleanup: str = "delete", days: int | None = None) -> dict[str, str]:
    config = {
        "cleanup.policy": cleanup,
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        # The broker's clock, not each producer's: neither a deadline nor the search for the answers since some job
        # must hang on clocks that nobody looks after.
        "message.timestamp.type": "LogAppendTime",
    }
    if days is not None:
        config["retention.ms"] = str(days * _DAY_MS)
    return config

"""What a soak tells besides the verdict: lateness and its causes by the service's own account, and memory."""

import math
import os
from collections import Counter
from pathlib import Path
from statistics import linear_regression
from typing import NamedTuple

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.kafka_connection import KafkaConnection
from pipeline.bus.topics import Topics
from schemas.events import SlaEvent
from schemas.job import Lane

MIB = 1 << 20
READ_WITHIN_S = 60.0
WARM_UP = 0.25
"""Of the samples: by then every pool has been filled once."""


class Size(NamedTuple):
    """``answers``: how many there were, by all workers, when the process had ``rss_mib``."""

    answers: int
    rss_mib: float


def rss_mib(pid: int) -> float:
    """Resident size of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def slope_mib(sizes: list[Size]) -> float:
    """Growth a 1,000 answers, after warm-up."""
    kept = sizes[int(WARM_UP * len(sizes)) :]
    return linear_regression([size.answers / 1e3 for size in kept], [size.rss_mib for size in kept]).slope


def events(bootstrap: str, topics: Topics) -> list[SlaEvent]:
    """The service's account of the realtime lane."""
    reader = KafkaBus(KafkaConnection(bootstrap)).reader(client_id="soak")
    try:
        records = reader.read(reader.bounds(reader.partitions(topics.sla)), within_s=READ_WITHIN_S)
        found = [SlaEvent.model_validate_json(record.value or b"") for record in records]
    finally:
        reader.close()
    return [event for event in found if event.lane is Lane.REALTIME]


def lateness(account: list[SlaEvent]) -> str:
    """Percentiles and causes, for people."""
    latencies_ms = sorted(event.latency_ms for event in account)
    p50, p99 = (latencies_ms[max(0, math.ceil(part * len(latencies_ms)) - 1)] for part in (0.5, 0.99))
    causes = Counter(str(event.cause) for event in account if event.cause is not None)
    listed = ", ".join(f"{count} {cause}" for cause, count in causes.most_common()) or "none"
    in_time = sum(event.in_time for event in account) / len(account)
    percentiles = f"p50 {p50:.0f} ms, p99 {p99:.0f} ms"
    return f"{len(account)} realtime answers, {in_time:.2%} in time; {percentiles}; causes: {listed}"

"""Part "memory": whether the engine's resident memory stays where it is over thousands of mixed requests."""

from statistics import median

from benchmarks.llm_contestants import Contestants, NotMeasured
from benchmarks.llm_findings import Findings, Goal, Progress, unmeasured
from benchmarks.tables import Table

SOAKED = "ours int8, soaked"
BATCHES = 100
WARM_UP_REQUESTS = 500
"""By then every block has been written once, so that all its pages are there."""

TOLERANCE = 0.02
MIB = 1 << 20


def measure(contestants: Contestants, *, requests: int, progress: Progress) -> Findings:
    """Serve ``requests`` requests of all kinds, eight at a time, and look at the memory ``BATCHES`` times."""
    promise, needed = f"resident memory over {requests} requests, after warm-up", f"+- {TOLERANCE:.0%}"
    sizes: list[int] = []
    ends: dict[str, int] = {}
    try:
        for batch in range(BATCHES):
            progress(f"requests {batch * requests // BATCHES} of {requests}")
            count = requests // BATCHES
            _, found = contestants.get(SOAKED).ask("traffic", first=batch * count, count=count)
            sizes.append(found["rss_bytes"])
            for end, times in found["ends"].items():
                ends[end] = ends.get(end, 0) + times
    except NotMeasured as reason:
        return Findings([], [unmeasured(promise, needed, str(reason))])
    finally:
        contestants.end(SOAKED)
    warm = -(-WARM_UP_REQUESTS * BATCHES // requests)
    kept = sizes[warm:]
    drift = max(abs(size / median(kept) - 1) for size in kept)
    goal = Goal(promise, needed, f"+- {drift:.2%}", drift <= TOLERANCE)
    return Findings([_table(sizes, ends, warm=warm)], [goal])


def _table(sizes: list[int], ends: dict[str, int], *, warm: int) -> Table:
    count = sum(ends.values()) // len(sizes)
    rows = [(str(index * count), f"{sizes[index - 1] / MIB:.1f}") for index in (1, warm, len(sizes) // 2, len(sizes))]
    how = ", ".join(f"{times} {end}" for end, times in sorted(ends.items()))
    return Table(f"Resident MiB of the engine's process ({how})", ("requests served", "MiB"), rows)

"""Part "capacity": what two cores can do with real clips, and what becomes of jobs when there are more of them.

The same load goes to a plain loop around the same analyzer. *Capacity* is the useful answers (complete or partial, in
time) a second in a closed loop with one job a core under way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.llm_findings import Findings, Goal, Progress, at_least
from benchmarks.service_clips import FIFO, UNDER_WAY, WORKER, RealClips
from benchmarks.service_jobs import clip_jobs
from benchmarks.service_load import Load
from benchmarks.service_outcomes import ANSWERS, Tally, lateness_causes, tally
from benchmarks.service_stand import NotMeasured, Stand
from benchmarks.tables import Table
from schemas.result import ResultStatus

OURS, PLAIN = "ours", "plain loop"
EASY, HARD = 0.7, 3.0
"""Times capacity."""

WARM_UP_JOBS = 18

CELLS = ("jobs", "jobs/s", "answered in time", *ANSWERS, "useful/s", "p50 ms", "p99 ms")


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long each load lasts."""

    closed: float
    easy: float
    hard: float


def measure(stand: Stand, *, clips: RealClips, seconds: Seconds, progress: Progress) -> Findings:
    """Find the capacity, then load both contestants with ``EASY`` and ``HARD`` times as much."""
    tallies: dict[str, Tally] = {}
    topics = stand.fresh_topics()
    load = Load(stand, topics, clip_jobs(clips.paths))
    with stand.program(WORKER, topics, **clips.settings) as worker:
        progress("ours: loading models")
        load.warm(WARM_UP_JOBS, program=worker)
        progress("ours: closed loop")
        span = load.closed(seconds=seconds.closed, under_way=UNDER_WAY, program=worker)
        closed = tallies[f"{OURS}, closed loop"] = tally(load.outcomes(span), seconds=span.seconds)
        capacity = closed.good_s
        if not capacity:
            raise NotMeasured("no clip was answered within the budget")
        tallies |= _loads(load, OURS, capacity=capacity, seconds=seconds, progress=progress)
    causes = lateness_causes(stand.bus, topics)
    tallies |= _plain(stand, clips, capacity=capacity, seconds=seconds, progress=progress)
    return Findings([_table(tallies, capacity), _causes(causes)], _goals(tallies))


def _loads(load: Load, name: str, *, capacity: float, seconds: Seconds, progress: Progress) -> dict[str, Tally]:
    tallies = {}
    for times, duration_s in ((EASY, seconds.easy), (HARD, seconds.hard)):
        progress(f"{name}: {times:.0%} of {capacity:.2f} jobs/s")
        span = load.open(rate=times * capacity, seconds=duration_s, seed=f"{times}")
        tallies[f"{name}, {times:.0%}"] = tally(load.outcomes(span), seconds=span.seconds)
    return tallies


def _plain(
    stand: Stand, clips: RealClips, *, capacity: float, seconds: Seconds, progress: Progress
) -> dict[str, Tally]:
    topics = stand.fresh_topics()
    load = Load(stand, topics, clip_jobs(clips.paths))
    with stand.program(FIFO, topics, **clips.settings) as program:
        progress(f"{PLAIN}: loading models")
        load.warm(WARM_UP_JOBS, program=program)
        return _loads(load, PLAIN, capacity=capacity, seconds=seconds, progress=progress)


def _table(tallies: Mapping[str, Tally], capacity: float) -> Table:
    rows = [(name, *cells(found)) for name, found in tallies.items()]
    return Table(f"Real clips; capacity {capacity:.2f} useful answers/s", ("load", *CELLS), rows)


def cells(found: Tally) -> Sequence[str]:
    """Return a table's row, under ``CELLS``."""
    return (
        f"{found.offered}",
        f"{found.offered_s:.2f}",
        f"{found.in_time:.1%}",
        *(f"{found.shares[name]:.1%}" for name in ANSWERS),
        f"{found.good_s:.2f}",
        f"{found.p50_ms:.0f}",
        f"{found.p99_ms:.0f}",
    )


def _causes(causes: Mapping[str, int]) -> Table:
    rows = [(cause, str(count)) for cause, count in sorted(causes.items(), key=lambda item: -item[1])]
    return Table("Ours, all loads: what took the time of answers that were late or cut short", ("cause", "jobs"), rows)


def _goals(tallies: Mapping[str, Tally]) -> list[Goal]:
    easy, hard = tallies[f"{OURS}, {EASY:.0%}"], tallies[f"{OURS}, {HARD:.0%}"]
    peak_s = max(found.good_s for name, found in tallies.items() if name.startswith(OURS))
    return [
        at_least(f"answered in time at {EASY:.0%}", 99.9, 100 * easy.in_time, unit=" %"),
        at_least(f"complete at {EASY:.0%}", 95, 100 * easy.shares[ResultStatus.COMPLETE], unit=" %"),
        at_least(f"answered in time at {HARD:.0%}", 99, 100 * hard.in_time, unit=" %"),
        at_least(f"useful answers at {HARD:.0%}, of their peak", 80, 100 * hard.good_s / peak_s, unit=" %"),
    ]

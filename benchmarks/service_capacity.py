"""Part "capacity": what two cores can do with real clips, and what becomes of jobs when there are more of them.

Two capacities are measured, since a clip costs what its plan costs, and the planner takes a cheaper plan when it must.
At *full quality* the cores are busy all the time with clips as thorough as a clip is that is alone: cores over the CPU
seconds of such a one. The *peak* is the useful answers (complete or partial, in time) a second in a closed loop with
one job a core under way. The same load goes to a plain loop around the same analyzer.
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
"""Times a capacity."""

FULL, PEAK = "full quality", "peak"

WARM_UP_JOBS = 18

CELLS = ("jobs", "jobs/s", "answered in time", *ANSWERS, "useful/s", "p50 ms", "p99 ms")


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long each load lasts."""

    closed: float
    easy: float
    hard: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """Clips a second."""

    full: float
    peak: float

    def loads(self) -> dict[str, float]:
        """Return the rates to try, by name."""
        return {
            f"{EASY:.0%} of {FULL}": EASY * self.full,
            f"{EASY:.0%} of {PEAK}": EASY * self.peak,
            f"{HARD:.0%} of {PEAK}": HARD * self.peak,
        }


def measure(stand: Stand, *, clips: RealClips, seconds: Seconds, progress: Progress) -> Findings:
    """Find the capacities, then load both contestants with parts and multiples of them."""
    tallies: dict[str, Tally] = {}
    topics = stand.fresh_topics()
    load = Load(stand, topics, clip_jobs(clips.paths))
    with stand.program(WORKER, topics, **clips.settings) as worker:
        progress("ours: loading models")
        load.warm(WARM_UP_JOBS, program=worker)
        progress("ours: one clip after another")
        before_s = worker.cpu_s()
        span = load.closed(seconds=seconds.closed, under_way=1, program=worker)
        alone = tallies[f"{OURS}, one after another"] = tally(load.outcomes(span), seconds=span.seconds)
        cpu_s = (worker.cpu_s() - before_s) / alone.offered
        progress("ours: one clip a core")
        span = load.closed(seconds=seconds.closed, under_way=UNDER_WAY, program=worker)
        closed = tallies[f"{OURS}, one a core"] = tally(load.outcomes(span), seconds=span.seconds)
        if not closed.good_s:
            raise NotMeasured("no clip was answered within the budget")
        capacity = Capacity(full=UNDER_WAY / cpu_s, peak=closed.good_s)
        tallies |= _loads(load, OURS, capacity=capacity, seconds=seconds, progress=progress)
    causes = lateness_causes(stand.bus, topics)
    short = Seconds(closed=0, easy=seconds.hard, hard=seconds.hard)  # it is lost soon, or not at all
    tallies |= _plain(stand, clips, capacity=capacity, seconds=short, progress=progress)
    return Findings([_table(tallies, capacity), _causes(causes)], _goals(tallies))


def _loads(load: Load, name: str, *, capacity: Capacity, seconds: Seconds, progress: Progress) -> dict[str, Tally]:
    tallies = {}
    for how_much, rate in capacity.loads().items():
        progress(f"{name}: {how_much}, {rate:.2f} jobs/s")
        span = load.open(rate=rate, seconds=seconds.hard if rate > capacity.peak else seconds.easy, seed=how_much)
        tallies[f"{name}, {how_much}"] = tally(load.outcomes(span), seconds=span.seconds)
    return tallies


def _plain(
    stand: Stand, clips: RealClips, *, capacity: Capacity, seconds: Seconds, progress: Progress
) -> dict[str, Tally]:
    topics = stand.fresh_topics()
    load = Load(stand, topics, clip_jobs(clips.paths))
    with stand.program(FIFO, topics, **clips.settings) as program:
        progress(f"{PLAIN}: loading models")
        load.warm(WARM_UP_JOBS, program=program)
        return _loads(load, PLAIN, capacity=capacity, seconds=seconds, progress=progress)


def _table(tallies: Mapping[str, Tally], capacity: Capacity) -> Table:
    rows = [(name, *cells(found)) for name, found in tallies.items()]
    title = f"Real clips; capacity at {FULL} {capacity.full:.2f}, at the {PEAK} {capacity.peak:.2f} clips/s"
    return Table(title, ("load", *CELLS), rows)


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
    peak_s = max(found.good_s for name, found in tallies.items() if name.startswith(OURS))
    goals = []
    for how_much in (f"{EASY:.0%} of {FULL}", f"{EASY:.0%} of {PEAK}"):
        found = tallies[f"{OURS}, {how_much}"]
        goals.append(at_least(f"answered in time at {how_much}", 99.9, 100 * found.in_time, unit=" %"))
        goals.append(at_least(f"complete at {how_much}", 95, 100 * found.shares[ResultStatus.COMPLETE], unit=" %"))
    hard = tallies[f"{OURS}, {HARD:.0%} of {PEAK}"]
    return [
        *goals,
        at_least(f"answered in time at {HARD:.0%} of {PEAK}", 99, 100 * hard.in_time, unit=" %"),
        at_least(f"useful answers at {HARD:.0%} of {PEAK}, of their most", 80, 100 * hard.good_s / peak_s, unit=" %"),
    ]

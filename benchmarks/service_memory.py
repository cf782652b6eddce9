"""Part "memory": whether the worker's process grows over thousands of jobs."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression

from benchmarks.llm_findings import Findings, Goal, Progress, at_most, unmeasured
from benchmarks.service_clips import WORKER, RealClips
from benchmarks.service_jobs import HOUR_MS, clip_jobs, made_up_jobs
from benchmarks.service_stand import NotMeasured, Stand
from benchmarks.service_topics import Counted
from benchmarks.tables import Table
from pipeline.client import submit
from schemas.job import VideoJob

BATCH_JOBS = 250
WARM_UP = 0.2
"""Of the jobs: by then every pool has been filled once."""

BATCH_S = 300.0
MIB = 1 << 20
LIMIT_MIB = 1.0


@dataclass(frozen=True, slots=True)
class Soaked:
    """Who is soaked, in what."""

    name: str
    command: Sequence[str]
    jobs: Iterator[VideoJob]
    settings: Mapping[str, str]


def idle(jobs: int) -> Soaked:
    """Return the worker around stages that return at once."""
    return Soaked(
        "stages that return at once", (sys.executable, "-m", "benchmarks.service_worker"), made_up_jobs(jobs), {}
    )


def real(clips: RealClips) -> Soaked:
    """Return the worker as it is."""
    return Soaked("real clips", WORKER, clip_jobs(clips.paths, budget_ms=HOUR_MS), clips.settings)


def measure(stand: Stand, *, soaked: Sequence[Soaked], jobs: int, progress: Progress) -> Findings:
    """Answer ``jobs`` jobs each, and look at the resident size after every ``BATCH_JOBS``."""
    rows, goals = [], list[Goal]()
    for who in soaked:
        promise = f"growth over {jobs} jobs ({who.name}), a 1,000 jobs after warm-up"
        try:
            sizes_mib = _sizes_mib(stand, who, jobs=jobs, progress=progress)
        except NotMeasured as reason:
            goals.append(unmeasured(promise, f"<= {LIMIT_MIB:g} MiB", str(reason)))
            continue
        kept = sizes_mib[int(WARM_UP * len(sizes_mib)) :]
        slope = linear_regression([BATCH_JOBS / 1e3 * number for number in range(len(kept))], kept).slope
        rows.append((who.name, *(f"{size:.1f}" for size in (sizes_mib[0], kept[0], kept[-1])), f"{slope:.2f}"))
        goals.append(at_most(promise, LIMIT_MIB, slope, unit=" MiB"))
    headings = ("worker's resident MiB", f"after {BATCH_JOBS}", "after warm-up", f"after {jobs}", "a 1,000 jobs")
    return Findings([Table("Memory", headings, rows)], goals)


def _sizes_mib(stand: Stand, who: Soaked, *, jobs: int, progress: Progress) -> list[float]:
    topics = stand.fresh_topics()
    sizes_mib = []
    with (
        Counted(stand.broker.bootstrap, topics.results) as results,
        stand.program(who.command, topics, **who.settings) as program,
    ):
        for done in range(BATCH_JOBS, jobs + 1, BATCH_JOBS):
            progress(f"{who.name}: {done} of {jobs}")
            submit((next(who.jobs) for _ in range(BATCH_JOBS)), bus=stand.bus, topics=topics)
            results.wait(done, within_s=BATCH_S, by=program)
            sizes_mib.append(program.rss_bytes() / MIB)
    return sizes_mib

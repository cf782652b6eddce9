"""Part "orchestration": what carrying a job costs when analysing it costs nothing, beside stream-processing frameworks.

The jobs lie there before anybody starts, so that the sender takes no CPU time from those who are measured. What
start-up costs is left out: the count begins when the first ``WARM_UP_JOBS`` are answered.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.llm_findings import Findings, Goal, Progress, at_least, at_most, unmeasured
from benchmarks.media import REPO
from benchmarks.service_jobs import made_up_jobs
from benchmarks.service_stand import NotMeasured, Stand
from benchmarks.service_topics import Counted
from benchmarks.tables import Table
from pipeline.client import submit

OURS = "ours"
WARM_UP_JOBS = 2_000
WITHIN_S = 120.0
NEEDED_JOBS_S, NEEDED_CPU_MS = 1_000, 0.6


@dataclass(frozen=True, slots=True)
class Rival:
    """A program in an environment of its own. ``made_by``: what makes the environment."""

    module: str
    python: Path = Path(sys.executable)
    made_by: str = ""


RIVALS = {
    OURS: Rival("service_worker"),
    "kafka-python loop": Rival("service_loop"),
    "Quix Streams": Rival("service_quix", REPO / ".venv-quix/bin/python", "make .venv-quix/.ready"),
    "FastStream": Rival("service_faststream", REPO / ".venv-faststream/bin/python", "make .venv-faststream/.ready"),
}


@dataclass(frozen=True, slots=True)
class Pace:
    """What one run came to."""

    jobs_s: float
    cpu_ms: float


def measure(stand: Stand, *, jobs: int, rounds: int, progress: Progress) -> Findings:
    """Let all take turns ``rounds`` times; the best round of each counts, for it was disturbed least."""
    paces: dict[str, list[Pace]] = {}
    absent: dict[str, str] = {}
    for number in range(rounds):
        for name, rival in RIVALS.items():
            progress(f"round {number + 1} of {rounds}: {name}")
            try:
                paces.setdefault(name, []).append(_run(stand, rival, jobs=jobs))
            except NotMeasured as reason:
                absent[name] = str(reason)
    best = {
        name: Pace(max(pace.jobs_s for pace in mine), min(pace.cpu_ms for pace in mine))
        for name, mine in paces.items()
        if mine and name not in absent
    }
    return Findings([_table(best)], _goals(best, absent), absent)


def _run(stand: Stand, rival: Rival, *, jobs: int) -> Pace:
    if not rival.python.is_file():
        raise NotMeasured(f"{rival.python} is missing ({rival.made_by})")
    topics = stand.fresh_topics()
    submit(made_up_jobs(WARM_UP_JOBS + jobs), bus=stand.bus, topics=topics)
    command = [str(rival.python), "-m", f"benchmarks.{rival.module}"]
    with Counted(stand.broker.bootstrap, topics.results) as results, stand.program(command, topics) as program:
        first = results.wait(WARM_UP_JOBS, within_s=WITHIN_S, by=program)
        began_s, began_cpu_s = time.perf_counter(), program.cpu_s()
        last = results.wait(WARM_UP_JOBS + jobs, within_s=WITHIN_S, by=program)
        wall_s, cpu_s = time.perf_counter() - began_s, program.cpu_s() - began_cpu_s
    if last - first < jobs / 2:
        raise NotMeasured(f"most of {jobs} jobs were answered before anybody could look")
    return Pace((last - first) / wall_s, cpu_s / (last - first) * 1e3)


def _table(best: Mapping[str, Pace]) -> Table:
    rows = [(name, f"{pace.jobs_s:.0f}", f"{pace.cpu_ms:.2f}") for name, pace in best.items()]
    return Table("Carrying jobs that cost nothing", ("", "jobs/s", "CPU ms a job"), rows)


def _goals(best: Mapping[str, Pace], absent: Mapping[str, str]) -> list[Goal]:
    names = "jobs carried", "CPU time to carry a job"
    if OURS not in best:
        needs = f">= {NEEDED_JOBS_S}/s", f"<= {NEEDED_CPU_MS} ms"
        return [unmeasured(name, need, absent[OURS]) for name, need in zip(names, needs, strict=True)]
    pace = best[OURS]
    return [
        at_least(names[0], NEEDED_JOBS_S, pace.jobs_s, unit="/s"),
        at_most(names[1], NEEDED_CPU_MS, pace.cpu_ms, unit=" ms"),
    ]

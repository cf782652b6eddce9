"""Part "lanes": whether realtime jobs feel a backfill lane that is full."""

from benchmarks.llm_findings import Findings, Progress, at_most
from benchmarks.service_capacity import CELLS, cells
from benchmarks.service_clips import UNDER_WAY, WORKER, RealClips
from benchmarks.service_jobs import clip_jobs
from benchmarks.service_load import Load
from benchmarks.service_outcomes import tally
from benchmarks.service_stand import NotMeasured, Stand
from benchmarks.tables import Table
from pipeline.client import submit
from schemas.job import Lane

WARM_UP_JOBS = 18
CLOSED_S = 15.0
SHARE = 0.5
"""Of capacity that realtime takes: backfill is what a worker does with the rest."""

BACKFILL_JOBS = 1_000
"""More than can be done meanwhile."""

LIMIT = 1.15
ALONE, BESIDE = "realtime alone", "beside a full backfill lane"


def measure(stand: Stand, *, clips: RealClips, seconds: float, progress: Progress) -> Findings:
    """Send the same realtime jobs at the same moments without and with a full backfill lane."""
    topics = stand.fresh_topics()
    load = Load(stand, topics, clip_jobs(clips.paths))
    with stand.program(WORKER, topics, **clips.settings) as worker:
        progress("loading models")
        load.warm(WARM_UP_JOBS, program=worker)
        progress("closed loop")
        closed = load.closed(seconds=CLOSED_S, under_way=UNDER_WAY, program=worker)
        found = tally(load.outcomes(closed), seconds=closed.seconds)
        rate = SHARE * found.good_s
        if not rate:
            raise NotMeasured("no clip was answered within the budget")
        spans = {}
        for name in (ALONE, BESIDE):
            if name == BESIDE:
                backfill = clip_jobs(clips.paths, lane=Lane.BACKFILL, budget_ms=None)
                submit((next(backfill) for _ in range(BACKFILL_JOBS)), bus=stand.bus, topics=topics)
            progress(f"{name}: {rate:.2f} jobs/s")
            spans[name] = load.open(rate=rate, seconds=seconds, seed="lanes")
        worker.kill()  # what is left of the backfill is of no interest
        tallies = {name: tally(load.outcomes(span), seconds=span.seconds) for name, span in spans.items()}
        done_s = load.answered(Lane.BACKFILL, spans[BESIDE]) / spans[BESIDE].seconds
    ratio = tallies[BESIDE].p99_ms / tallies[ALONE].p99_ms
    title = f"Realtime jobs of real clips; backfill done beside them: {done_s:.2f} clips/s"
    table = Table(title, ("", *CELLS), [(name, *cells(t)) for name, t in tallies.items()])
    return Findings([table], [at_most("realtime p99 with a full backfill lane, of p99 without", LIMIT, ratio)])

"""``python -m benchmarks.accuracy``: what is right and what is wrong, file by file, against the goals.

Runs every clip of the media manifest and every hard case through the real analyzer. Ends with 1 when a goal is missed.
With a budget every clip is answered in time as well, and both answers stand side by side: what a deadline costs is
shown, and the goals are those without one.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console

from benchmarks.hard import HardScore, run_hard_cases
from benchmarks.media import load_clips, media_root
from benchmarks.memory import PeakMemory
from benchmarks.report import InTime, print_report
from benchmarks.scoring import ClipScore, Goal, goals, load_truth, score_clip
from benchmarks.watched import watch
from pipeline.analyze import Analyzer
from pipeline.analyze_command import job_for
from pipeline.app import open_analyzer
from pipeline.plans import plan_names
from pipeline.settings import load_settings
from schemas.deadline import Deadline

MAX_PROCESS_BYTES = 1.5 * 1024**3


@dataclass(frozen=True, slots=True)
class Findings:
    """All that one run of the report found out. ``in_time``: what was ready by the budget, if there was one."""

    clips: list[ClipScore]
    hard: list[HardScore]
    peaks_bytes: dict[str, int]
    goals: list[Goal]
    in_time: InTime | None = field(default=None)


def main() -> None:
    """Run, print, and end with 1 when a goal is missed."""
    options = _options()
    findings = asyncio.run(_run(options))
    print_report(
        findings.clips, findings.hard, findings.goals, peaks_bytes=findings.peaks_bytes, in_time=findings.in_time
    )
    if options.json:
        options.json.write_text(json.dumps(asdict(findings), ensure_ascii=False, indent=1), "utf-8")
    sys.exit(not all(goal.met for goal in findings.goals))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--plan", default="auto", choices=("auto", *plan_names()))
    parser.add_argument("--budget-ms", type=int, help="judge what is ready by then, too")
    parser.add_argument("--only", default="*", metavar="GLOB", help="files by their path in the manifest")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all findings here")
    return parser.parse_args()


async def _run(options: argparse.Namespace) -> Findings:
    in_time = None
    with PeakMemory() as memory:
        async with open_analyzer(load_settings()) as analyzer:
            if options.budget_ms:  # first: nothing is in a cache yet, and nobody has taught it what clips cost
                watched = watch(analyzer)
                with watched.at_work():
                    scores = await _run_clips(watched.analyzer, options, budget_ms=options.budget_ms)
                in_time = InTime(options.budget_ms, scores, goals(scores))
            clips = await _run_clips(analyzer, options, budget_ms=None)
            hard = await run_hard_cases(analyzer, media_root() / "hard", only=options.only)
    judged = [*goals(clips), *_hard_goals(hard), _memory_goal(memory.peaks_bytes)]
    return Findings(clips, hard, memory.peaks_bytes, judged, in_time)


async def _run_clips(analyzer: Analyzer, options: argparse.Namespace, *, budget_ms: int | None) -> list[ClipScore]:
    truth = load_truth()
    scores = []
    with Console(stderr=True).status("") as status:
        for clip in load_clips(media_root()):
            if not fnmatch(clip.name, options.only):
                continue
            status.update(clip.name)
            job = job_for(clip.path, budget_ms=budget_ms)
            deadline = Deadline.after(budget_ms / 1e3) if budget_ms else Deadline.never()
            analysis = await analyzer.analyze(job, clip.path, deadline=deadline, plan=options.plan)
            scores.append(score_clip(clip, analysis.result, truth))
    return scores


def _hard_goals(hard: list[HardScore]) -> list[Goal]:
    if not hard:
        return []
    right = sum(not score.wrong for score in hard)
    return [Goal("hard cases as expected", f"{len(hard)} of {len(hard)}", f"{right}", right == len(hard))]


def _memory_goal(peaks_bytes: dict[str, int]) -> Goal:
    largest_bytes = max(peaks_bytes.values())
    got = f"{largest_bytes / 2**30:.2f} GiB"
    return Goal("memory of the largest process", "<= 1.50 GiB", got, largest_bytes <= MAX_PROCESS_BYTES)


if __name__ == "__main__":
    main()

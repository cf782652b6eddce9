"""``python -m benchmarks.accuracy``: what is right and what is wrong, file by file, against the goals.

Runs every clip of the media manifest and every hard case through the real analyzer. Ends with 1 when a goal is missed.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console

from benchmarks.hard import HardScore, run_hard_cases
from benchmarks.media import load_clips, media_root
from benchmarks.memory import PeakMemory
from benchmarks.report import print_report
from benchmarks.scoring import ClipScore, Goal, goals, load_truth, score_clip
from pipeline.analyze import Analyzer
from pipeline.analyze_command import job_for
from pipeline.app import open_analyzer
from pipeline.plans import plan_names
from pipeline.settings import load_settings
from schemas.deadline import Deadline

MAX_PROCESS_BYTES = 1.5 * 1024**3


@dataclass(frozen=True, slots=True)
class Findings:
    """All that one run of the report found out."""

    clips: list[ClipScore]
    hard: list[HardScore]
    peaks_bytes: dict[str, int]
    goals: list[Goal]


def main() -> None:
    """Run, print, and end with 1 when a goal is missed."""
    options = _options()
    findings = asyncio.run(_run(options))
    print_report(findings.clips, findings.hard, findings.goals, peaks_bytes=findings.peaks_bytes)
    if options.json:
        options.json.write_text(json.dumps(asdict(findings), ensure_ascii=False, indent=1), "utf-8")
    sys.exit(not all(goal.met for goal in findings.goals))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--plan", default="auto", choices=("auto", *plan_names()))
    parser.add_argument("--budget-ms", type=int, help="judge what is ready by then (default: no deadline)")
    parser.add_argument("--only", default="*", metavar="GLOB", help="files by their path in the manifest")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all findings here")
    return parser.parse_args()


async def _run(options: argparse.Namespace) -> Findings:
    with PeakMemory() as memory:
        async with open_analyzer(load_settings()) as analyzer:
            clips = await _run_clips(analyzer, options)
            hard = await run_hard_cases(analyzer, media_root() / "hard", only=options.only)
    judged = [*goals(clips), *_hard_goals(hard), _memory_goal(memory.peaks_bytes)]
    return Findings(clips, hard, memory.peaks_bytes, judged)


async def _run_clips(analyzer: Analyzer, options: argparse.Namespace) -> list[ClipScore]:
    truth = load_truth()
    scores = []
    with Console(stderr=True).status("") as status:
        for clip in load_clips(media_root()):
            if not fnmatch(clip.name, options.only):
                continue
            status.update(clip.name)
            job = job_for(clip.path, budget_ms=options.budget_ms)
            deadline = Deadline.after(options.budget_ms / 1e3) if options.budget_ms else Deadline.never()
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

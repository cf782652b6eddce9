"""``python -m benchmarks.flow``: how long the whole flow takes and which words it has in time.

Beside it the same models in a row, and a script. Under each condition (the machine as it is, held to AVX2, pinned to
one core) everything is warm, and the contestants take turns (A B C D, A B C D, ...), so that whatever else the machine
does hits all of them alike. Compare figures of one run only. Ends with 1 when a goal is missed.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.flow_child import Measurement, measure_apart
from benchmarks.flow_clips import flow_clips
from benchmarks.flow_conditions import NAMES, Condition, NotHere, conditions
from benchmarks.flow_goals import flow_goals
from benchmarks.flow_tables import flow_tables
from benchmarks.llm_findings import Goal, goals_table
from benchmarks.machine import vector_units
from benchmarks.media import REPO, media_root
from benchmarks.tables import print_tables

BASELINE_PYTHON = REPO / ".venv-baseline" / "bin" / "python"


def main() -> None:
    """Measure and print; end with 1 when a goal is missed."""
    options = _options()
    clips = {clip.name: clip for clip in flow_clips(media_root(), only=options.clips)}
    if not clips:
        raise SystemExit("no such clips here: see benchmarks/flow_clips.toml")
    baseline = options.baseline_python if options.baseline_python.is_file() else None
    if baseline is None:
        print("No baseline: its environment is missing (see benchmarks/README.md)", file=sys.stderr)
    console = Console(width=None if Console().is_terminal else 180, highlight=False)
    found, absent = [], dict.fromkeys(set(NAMES) - set(options.condition), "not asked for")
    for condition in _conditions(options.condition):
        if isinstance(condition, NotHere):
            absent[condition.name] = condition.reason
            continue
        found.append(measure_apart(condition, runs=options.runs, clips=options.clips, baseline=baseline))
        _print_heading(found[-1], f"{options.runs} runs of {len(clips)} clips")
        print_tables(list(flow_tables(found[-1], clips)), console, markdown=options.markdown)
    goals = flow_goals(found, clips, absent=absent)
    print_tables([goals_table(goals)], console, markdown=options.markdown)
    if options.json:
        options.json.write_text(json.dumps(_document(found, goals), ensure_ascii=False, indent=1), "utf-8")
    sys.exit(any(goal.met is False for goal in goals))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flow", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="measured runs of each clip by each contestant")
    parser.add_argument("--clips", help="names from flow_clips.toml, comma-separated (default: all)")
    parser.add_argument(
        "--condition", action="append", choices=NAMES, help="measure under this one; may be repeated (default: all)"
    )
    parser.add_argument(
        "--baseline-python",
        type=Path,
        default=BASELINE_PYTHON,
        help="python of the baseline's environment; without it the baseline is left out",
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--json", type=Path, help="also write every sample here")
    options = parser.parse_args()
    options.condition = options.condition or NAMES
    return options


def _conditions(names: Sequence[str]) -> list[Condition | NotHere]:
    cores = frozenset(os.sched_getaffinity(0))
    return conditions(names, units=vector_units(), cores=cores, environment=os.environ)


def _print_heading(one: Measurement, what: str) -> None:
    held = "; held to AVX2" if one.condition.environment else ""
    print(f"\n{one.condition.title}: {one.machine}{held}; {what}; other processes used {one.others:.0%} of it.\n")


def _document(found: Sequence[Measurement], goals: Sequence[Goal]) -> dict[str, object]:
    measured = {
        one.condition.name: {
            "machine": one.machine,
            "others": one.others,
            "samples": [asdict(sample) for sample in one.samples],
        }
        for one in found
    }
    return {"conditions": measured, "goals": [asdict(goal) for goal in goals]}


if __name__ == "__main__":
    main()

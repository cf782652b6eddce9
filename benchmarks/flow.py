"""``python -m benchmarks.flow``: how long the whole flow takes, beside the same models in a row and beside a script.

Everything is warm, and the contestants take turns (A B C D, A B C D, ...), so that whatever else the machine does hits
all of them alike. Compare figures of one run only.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.console import Console

from benchmarks.contestants import Contestant, Ours, open_script
from benchmarks.flow_clips import FlowClip, flow_clips
from benchmarks.machine import CpuMeter, OtherLoad, describe_machine
from benchmarks.media import REPO, media_root
from benchmarks.samples import Cost, Sample, p95, speed_up
from benchmarks.sequential import Sequential
from benchmarks.tables import Table
from pipeline.app import open_analyzer
from pipeline.settings import load_settings

BUDGET_MS = 500
PLAN = "standard"
OURS = f"ours, {PLAN}"
BUDGETED = f"ours, {BUDGET_MS} ms"
BASELINE_PYTHON = REPO / ".venv-baseline" / "bin" / "python"


def main() -> None:
    """Measure and print."""
    options = _options()
    clips = flow_clips(media_root(), only=options.clips)
    if not clips:
        raise SystemExit("no such clips here: see benchmarks/flow_clips.toml")
    baseline = options.baseline_python if options.baseline_python.is_file() else None
    samples, others = asyncio.run(_measure(clips, runs=options.runs, baseline=baseline))
    tables = list(_tables(samples))
    heading = (
        f"{describe_machine()}; {options.runs} runs of {len(clips)} clips; other processes used {others:.0%} of it"
    )
    if options.markdown:
        print(f"{heading}.\n")
        print("\n".join(table.as_markdown() for table in tables))
    else:
        console = Console(width=None if Console().is_terminal else 160, highlight=False)
        console.print(heading)
        for table in tables:
            table.print_to(console)
    if options.json:
        document = {"machine": heading, "samples": [asdict(sample) for sample in samples]}
        options.json.write_text(json.dumps(document, indent=1), "utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flow", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="measured runs of each clip by each contestant")
    parser.add_argument("--clips", help="names from flow_clips.toml, comma-separated (default: all)")
    parser.add_argument(
        "--baseline-python",
        type=Path,
        default=BASELINE_PYTHON,
        help="python of the baseline's environment; without it the baseline is left out",
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--json", type=Path, help="also write every sample here")
    return parser.parse_args()


async def _measure(clips: Sequence[FlowClip], *, runs: int, baseline: Path | None) -> tuple[list[Sample], float]:
    """Return all samples, and the share of the cores that other processes took meanwhile."""
    # Clips come again and again: with a cache the language model would answer only the first round.
    settings = load_settings().model_copy(update={"llm_cache_entries": 0})
    progress = Console(stderr=True)
    async with AsyncExitStack() as stack:
        status = stack.enter_context(progress.status("loading"))
        script = None
        weights = settings.cache_dir / "weights"
        if baseline is not None:
            script = await stack.enter_async_context(open_script(baseline, weights=weights))
        else:
            progress.print("No baseline: its environment is missing (see benchmarks/README.md)")
        meter = CpuMeter(without=frozenset({script.pid} if script else ()))
        analyzer = await stack.enter_async_context(open_analyzer(settings))
        contestants: list[Contestant] = [
            Ours(OURS, analyzer, meter, plan=PLAN, budget_ms=None),
            Ours(BUDGETED, analyzer, meter, plan="auto", budget_ms=BUDGET_MS),
            Sequential(f"in a row, {PLAN}", analyzer.workshop, meter, plan=PLAN),
            *([script] if script else ()),
        ]
        await _round(contestants, clips)  # warms caches and estimates; thrown away
        others = OtherLoad()
        samples = []
        for number in range(runs):
            status.update(f"run {number + 1} of {runs}")
            samples += await _round(contestants, clips)
        return samples, others.share()
    raise AssertionError  # an exit stack swallows nothing here


async def _round(contestants: Sequence[Contestant], clips: Sequence[FlowClip]) -> list[Sample]:
    return [await contestant.run(clip) for clip in clips for contestant in contestants]


def _tables(samples: Sequence[Sample]) -> Iterator[Table]:
    names = list(dict.fromkeys(sample.contestant for sample in samples))
    yield _whole(samples, names)
    yield _by_clip(samples, names)
    yield _stages(samples, names)


def _whole(samples: Sequence[Sample], names: Sequence[str]) -> Table:
    """Summarise the whole flow over all clips and runs."""
    rows = []
    for name in names:
        mine = [sample for sample in samples if sample.contestant == name]
        wall_ms, cpu_ms = [s.whole.wall_ms for s in mine], [s.whole.cpu_ms or 0.0 for s in mine]
        rows.append(
            (
                name,
                *(f"{value:.0f}" for value in (median(wall_ms), p95(wall_ms), median(cpu_ms), p95(cpu_ms))),
                _share([ms <= BUDGET_MS for ms in wall_ms]),
                _share([s.complete for s in mine]),
                f"{speed_up(samples, of=OURS, over=name):.2f}",
                f"{speed_up(samples, of=OURS, over=name, cpu=True):.2f}",
            )
        )
    headings = ("whole flow", "median ms", "p95 ms", "median CPU ms", "p95 CPU ms", f"in {BUDGET_MS} ms", "complete")
    return Table("All clips", (*headings, f"wall / {OURS}", f"CPU / {OURS}"), rows)


def _by_clip(samples: Sequence[Sample], names: Sequence[str]) -> Table:
    rows = []
    for clip in dict.fromkeys(sample.clip for sample in samples):
        mine = {name: [s for s in samples if s.clip == clip and s.contestant == name] for name in names}
        plans = ", ".join(sorted({sample.plan for sample in mine[BUDGETED]}))
        rows.append((clip, *(_median_p95([s.whole.wall_ms for s in mine[name]]) for name in names), plans))
    return Table("Wall ms by clip, median / p95", ("clip", *names, f"plans at {BUDGET_MS} ms"), rows)


def _stages(samples: Sequence[Sample], names: Sequence[str]) -> Table:
    """List what single stages cost. CPU time only of those who can tell it."""
    columns: list[tuple[str, dict[str, str]]] = []
    for name in names:
        costs: dict[str, list[Cost]] = {}
        for sample in samples:
            if sample.contestant == name:
                for stage, cost in sample.stages.items():
                    costs.setdefault(stage, []).append(cost)
        columns.append((name, {stage: _median_p95([c.wall_ms for c in mine]) for stage, mine in costs.items()}))
        known = {stage: [c.cpu_ms for c in mine if c.cpu_ms is not None] for stage, mine in costs.items()}
        if any(known.values()):
            columns.append((f"{name}, CPU", {stage: _median_p95(values) for stage, values in known.items()}))
    stages = dict.fromkeys(stage for _, cells in columns for stage in cells)
    rows = [(stage, *(cells.get(stage, "-") for _, cells in columns)) for stage in stages]
    return Table("Stages, ms of running without waiting, median / p95", ("stage", *(name for name, _ in columns)), rows)


def _share(verdicts: Sequence[bool | None]) -> str:
    known = [verdict for verdict in verdicts if verdict is not None]
    return f"{sum(known) / len(known):.0%}" if known else "-"


def _median_p95(values: Sequence[float]) -> str:
    return f"{median(values):.0f} / {p95(values):.0f}"


if __name__ == "__main__":
    main()

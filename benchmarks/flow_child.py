"""``python -m benchmarks.flow_child FILE OPTIONS``: the flow measured in this process, as it was started.

One process a condition: models choose their kernels and their threads when they are loaded.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.contestants import Contestant, Ours, open_script
from benchmarks.flow_clips import FlowClip, flow_clips
from benchmarks.flow_conditions import Condition, pinned
from benchmarks.machine import CpuMeter, OtherLoad, describe_machine
from benchmarks.media import REPO, media_root
from benchmarks.samples import Sample, sample_from
from benchmarks.sequential import Sequential
from benchmarks.watched import watch
from pipeline.app import open_analyzer
from pipeline.settings import load_settings

BUDGET_MS = 500
PLAN = "standard"
OURS = f"ours, {PLAN}"
BUDGETED = f"ours, {BUDGET_MS} ms"
IN_A_ROW = f"in a row, {PLAN}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was found under one condition. ``others``: share of the cores that other processes took meanwhile."""

    condition: Condition
    machine: str
    others: float
    samples: list[Sample]


def measure_apart(condition: Condition, *, runs: int, clips: str | None, baseline: Path | None) -> Measurement:
    """Measure under ``condition``, in a process of its own. Raises ``SystemExit`` when that fails."""
    options = {"runs": runs, "clips": clips, "baseline": str(baseline) if baseline else None, "title": condition.title}
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = (sys.executable, "-m", "benchmarks.flow_child", str(found), json.dumps(options))
        with pinned(condition.cores):
            child = subprocess.Popen(command, cwd=REPO, env={**os.environ, **condition.environment})
        if child.wait():
            raise SystemExit(f"{condition.title}: measuring ended with code {child.returncode}")
        document = json.loads(found.read_text("utf-8"))
    samples = [sample_from(entry) for entry in document["samples"]]
    return Measurement(condition, document["machine"], document["others"], samples)


def main() -> None:
    """Measure, and write what was found into the file."""
    found, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    samples, others = asyncio.run(_measure(options))
    document = {"machine": describe_machine(), "others": others, "samples": [asdict(sample) for sample in samples]}
    found.write_text(json.dumps(document), "utf-8")


async def _measure(options: dict[str, Any]) -> tuple[list[Sample], float]:
    """Return all samples, and the share of the cores that other processes took meanwhile."""
    # Clips come again and again: with a cache the language model would answer only the first round.
    settings = load_settings().model_copy(update={"llm_cache_entries": 0})
    clips = flow_clips(media_root(), only=options["clips"])
    async with AsyncExitStack() as stack:
        status = stack.enter_context(Console(stderr=True).status("loading"))
        script = None
        if options["baseline"]:
            weights = settings.cache_dir / "weights"
            script = await stack.enter_async_context(open_script(Path(options["baseline"]), weights=weights))
        meter = CpuMeter(without=frozenset({script.pid} if script else ()))
        analyzer = await stack.enter_async_context(open_analyzer(settings))
        contestants: list[Contestant] = [
            Ours(OURS, watch(analyzer), meter, plan=PLAN, budget_ms=None),
            Ours(BUDGETED, watch(analyzer), meter, plan="auto", budget_ms=BUDGET_MS),
            Sequential(IN_A_ROW, analyzer.workshop, meter, plan=PLAN),
            *([script] if script else ()),
        ]
        await _round(contestants, clips)  # warms caches and estimates; thrown away
        others = OtherLoad()
        samples = []
        for number in range(options["runs"]):
            status.update(f"{options['title']}: run {number + 1} of {options['runs']}")
            samples += await _round(contestants, clips)
        return samples, others.share()
    raise AssertionError  # an exit stack swallows nothing here


async def _round(contestants: Sequence[Contestant], clips: Sequence[FlowClip]) -> list[Sample]:
    return [await contestant.run(clip) for clip in clips for contestant in contestants]


if __name__ == "__main__":
    main()

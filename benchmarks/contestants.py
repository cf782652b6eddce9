"""Who is measured: this pipeline with and without a budget, and the script in its own environment."""

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from benchmarks.flow_clips import FlowClip
from benchmarks.machine import CpuMeter
from benchmarks.media import REPO
from benchmarks.samples import Cost, Sample
from benchmarks.watched import LOOKING, Watched, chain_ms
from pipeline.analyze_command import job_for
from schemas.deadline import Deadline
from schemas.result import FusedResult, ResultStatus, StageReport

SETTLE_S = 0.3
"""After a run: threads that ran past a deadline end, and their CPU time still counts."""

LOADING_S = 180.0


class Contestant(Protocol):
    """Analyses clips in its own way."""

    @property
    def name(self) -> str:
        """Column in the tables."""
        ...

    async def run(self, clip: FlowClip) -> Sample:
        """Analyse ``clip`` once, warm, and say what it cost."""
        ...


class Ours:
    """The product as users run it, with a latency book of its own."""

    def __init__(self, name: str, watched: Watched, meter: CpuMeter, *, plan: str, budget_ms: int | None) -> None:
        self.name = name
        self._watched = watched
        self._meter = meter
        self._plan = plan
        self._budget_ms = budget_ms

    async def run(self, clip: FlowClip) -> Sample:
        """Analyse ``clip``; stages have wall times only, because they share processes and threads."""
        job = job_for(clip.path, budget_ms=self._budget_ms)
        with self._watched.at_work():
            mark, began_s = self._meter.mark(), time.perf_counter()
            deadline = Deadline.after(self._budget_ms / 1e3) if self._budget_ms else Deadline.never()
            analysis = await self._watched.analyzer.analyze(job, clip.path, deadline=deadline, plan=self._plan)
            wall_ms = (time.perf_counter() - began_s) * 1e3
            units = list(self._watched.units)  # before those that end too late
            await asyncio.sleep(SETTLE_S)
        result = analysis.result
        return Sample(
            contestant=self.name,
            clip=clip.name,
            whole=Cost(wall_ms, self._meter.since_s(mark) * 1e3),
            stages={name: _busy(report) for name, report in result.stages.items()},
            complete=result.status is ResultStatus.COMPLETE,
            plan=result.plan.name if result.plan else "",
            heard=result.speech.text if result.speech else "",
            looks={name: sum(unit.name == name for unit in units) for name in LOOKING},
            chain_ms=chain_ms(units, before_ms=_busy_ms(result, "audio", "vad"), after_ms=_busy_ms(result, "text")),
        )


def _busy_ms(result: FusedResult, *names: str) -> float:
    return sum(_busy(result.stages[name]).wall_ms for name in names if name in result.stages)


def _busy(report: StageReport) -> Cost:
    return Cost(report.elapsed_ms - report.queue_ms)


class Script:
    """The baseline, warm in its own process. Its own clock measures CPU time, children included."""

    name = "script"

    def __init__(self, process: asyncio.subprocess.Process, log: IO[bytes]) -> None:
        self._process = process
        self._log = log
        self.versions: dict[str, str] = {}

    @property
    def pid(self) -> int:
        """Its process, not to be counted as ours."""
        return self._process.pid

    async def load(self) -> None:
        """Wait until all its models are there."""
        self.versions = (await asyncio.wait_for(self._answer(), LOADING_S))["versions"]

    async def run(self, clip: FlowClip) -> Sample:
        """Let it analyse ``clip``."""
        assert self._process.stdin is not None
        request = {"path": str(clip.path), "language": clip.language}
        began_s = time.perf_counter()
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        answer = await self._answer()
        wall_ms = (time.perf_counter() - began_s) * 1e3
        await asyncio.sleep(SETTLE_S)
        stages = {name: Cost(**cost) for name, cost in answer["stages"].items()}
        cpu_ms = sum(cost.cpu_ms or 0.0 for cost in stages.values())
        return Sample(self.name, clip.name, Cost(wall_ms, cpu_ms), stages, heard=answer["transcript"])

    async def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            last_words = self._log.read().decode("utf-8", "replace")[-2000:]
            raise SystemExit(f"{last_words}\nThe baseline ended with code {await self._process.wait()}.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@asynccontextmanager
async def open_script(python: Path, *, weights: Path) -> AsyncIterator[Script]:
    """Start the baseline with ``python`` of its own environment; end it with the block."""
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            str(python),
            "-m",
            "benchmarks.baseline",
            str(weights),
            cwd=REPO,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
        try:
            script = Script(process, log)
            await script.load()
            yield script
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

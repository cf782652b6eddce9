"""Clips on a clock that stands still: no slot is idle beside a unit that fits, and no answer is late for it."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.analyze import Analyzer
from pipeline.forecast import PRIORS_MS
from pipeline.job_run import Workshop
from pipeline.latency import LatencyBook
from pipeline.plans import LADDER
from pipeline.slots import CpuSlots
from pipeline.toolbox import Toolbox
from schemas.deadline import Deadline
from schemas.result import FusedResult, StageStatus
from stages.transcribe import SpeechTask
from tests.unit.fakes import FakeDecoders, job, toolbox
from tests.unit.virtual_threads import VirtualThreads, sleep
from tests.unit.virtual_time import VirtualLoop, now_s, within

LOOKS = ("ocr", "detect", "unsafe", "scene")
CLIP = Path("/clips/clip.mp4")
SLOTS = 2
SLACK_S = 0.002

costs_ms = st.fixed_dictionaries(
    {name: st.integers(5, 150) for name in (*LOOKS, "confirm", "vad", "transcribe", "language", "sentiment")}
)


@dataclass
class Diary:
    """When slots were at work: (begin, end) of every unit in seconds of virtual time, by stage."""

    units: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def idle(self, *, since_s: float, until_s: float) -> Iterator[tuple[float, float]]:
        """Yield the stretches in which at least one slot had nothing to do."""
        spans = [span for spans in self.units.values() for span in spans]
        moments = sorted({since_s, until_s, *(t for span in spans for t in span if since_s < t < until_s)})
        begin = None
        for now, after in pairwise(moments):
            busy = sum(begin_s <= now and end_s >= after for begin_s, end_s in spans)
            if busy < SLOTS and begin is None:
                begin = now
            if busy >= SLOTS and begin is not None:
                yield begin, now
                begin = None
        if begin is not None:
            yield begin, until_s


def taking(diary: Diary, name: str, ms: float, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(unit: Any) -> Any:
        began_s = clock()
        sleep(ms / 1e3)
        diary.units.setdefault(name, []).append((began_s, clock()))
        return answer(unit)

    clock = asyncio.get_running_loop().time
    return run


def slow_tools(diary: Diary, costs: dict[str, int]) -> Toolbox:
    tools = toolbox()
    for name in (*LOOKS, "confirm", "vad", "transcribe", "sentiment"):
        stage = getattr(tools, name)
        stage.answer, stage.expires = taking(diary, name, costs[name], stage.answer), False
    finding = taking(diary, "language", costs["language"], lambda _: "en")

    def language(unit: SpeechTask, *, deadline: Deadline) -> str:
        return finding(unit)

    tools.transcribe.language = language  # type: ignore[method-assign]
    return tools


def book(costs: dict[str, int], *, believed: float) -> LatencyBook:
    """Return estimates that are ``believed`` times the truth."""
    subject = LatencyBook({**PRIORS_MS, "frames": 0.1, "audio": 0.01, "wake": 1.0, "fuse": 1.0, "text": 1.0})
    for name, ms in costs.items():
        key, work = ("transcribe:en", 1.5) if name == "transcribe" else (name, 4.0 if name == "vad" else 1.0)
        subject.observe(key, ms=ms * believed, work=work)
    return subject


def analyzed(
    costs: dict[str, int], *, budgets_ms: list[int], believed: float = 1.0
) -> tuple[list[tuple[FusedResult, float]], Diary]:
    """Return each answer with the seconds after which it came, all clips having come at once."""

    async def run() -> tuple[list[tuple[FusedResult, float]], Diary]:
        diary = Diary()
        slots = CpuSlots(SLOTS, clock=now_s_of(), threads=VirtualThreads())
        tools, latencies = slow_tools(diary, costs), book(costs, believed=believed)
        subject = Analyzer(Workshop(tools, FakeDecoders(), slots, latencies), clock=now_s_of())  # type: ignore[arg-type]

        async def answer(budget_ms: int) -> tuple[FusedResult, float]:
            analysis = await subject.analyze(job(budget_ms=budget_ms), CLIP, deadline=within(budget_ms / 1e3))
            return analysis.result, now_s()

        answers = await asyncio.gather(*(answer(budget_ms) for budget_ms in budgets_ms))
        while slots.stats().free < SLOTS:
            await asyncio.sleep(0.01)
        return list(answers), diary

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


def now_s_of() -> Callable[[], float]:
    return asyncio.get_running_loop().time


@given(costs=costs_ms, budget_ms=st.integers(100, 1_500))
@settings(max_examples=60, deadline=None)
def test_no_slot_is_idle_beside_a_look_that_fits(costs: dict[str, int], budget_ms: int):
    ((result, ended_s),), diary = analyzed(costs, budgets_ms=[budget_ms])
    afterwards_s = (costs["confirm"] + costs["sentiment"] + 1) / 1e3
    until_s = min(ended_s, budget_ms / 1e3 - afterwards_s - 4 * SLACK_S)
    frames_s = (result.stages["frames"].start_ms + result.stages["frames"].elapsed_ms) / 1e3
    shares = LADDER[0].shares
    for name in LOOKS:
        if len(diary.units.get(name, ())) >= min(shares[name], result.coverage.frames_analyzed):
            continue
        fits_s = costs[name] / 1e3 + SLACK_S
        idle = [span for span in diary.idle(since_s=frames_s, until_s=until_s) if span[1] - span[0] > fits_s]
        assert not idle, f"{name} takes {costs[name]} ms and would have fitted"


@given(costs=costs_ms, budget_ms=st.integers(300, 1_500))
@settings(max_examples=40, deadline=None)
def test_an_answer_leaves_early_only_when_nothing_more_would_fit(costs: dict[str, int], budget_ms: int):
    ((result, ended_s),), diary = analyzed(costs, budgets_ms=[budget_ms])
    left_s = budget_ms / 1e3 - ended_s
    missed = [
        n for n in LOOKS if len(diary.units.get(n, ())) < min(LADDER[0].shares[n], result.coverage.frames_analyzed)
    ]
    afterwards_s = (costs["confirm"] + costs["sentiment"] + 1) / 1e3
    for name in missed:
        assert left_s <= costs[name] / 1e3 + 2 * afterwards_s + 6 * SLACK_S, name


@given(
    costs=costs_ms,
    budgets_ms=st.lists(st.integers(100, 1_500), min_size=1, max_size=4),
    believed=st.sampled_from([0.1, 0.5, 1.0, 3.0, 10.0]),
)
@settings(max_examples=60, deadline=None)
def test_no_answer_is_late_whatever_is_believed_and_whoever_else_is_there(
    costs: dict[str, int], budgets_ms: list[int], believed: float
):
    answers, _ = analyzed(costs, budgets_ms=budgets_ms, believed=believed)
    for (_, ended_s), budget_ms in zip(answers, budgets_ms, strict=True):
        assert ended_s <= budget_ms / 1e3 + 1e-6


@given(costs=costs_ms, believed=st.sampled_from([0.1, 0.5, 1.0, 3.0]))
@settings(max_examples=40, deadline=None)
def test_words_come_whatever_is_believed_where_there_is_time_for_them(costs: dict[str, int], believed: float):
    chain_ms = costs["vad"] + costs["language"] + costs["transcribe"] + costs["sentiment"]
    others_ms = max(costs.values())  # a unit under way cannot be interrupted
    budget_ms = round(1.7 * (chain_ms + 3 * others_ms)) + 100
    ((result, _),), _ = analyzed(costs, budgets_ms=[budget_ms], believed=believed)
    assert result.stages["transcribe"].status is StageStatus.OK
    assert result.speech is not None
    assert result.speech.text

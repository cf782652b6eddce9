"""What was measured under one condition, as tables. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.flow_child import BUDGET_MS, BUDGETED, OURS, Measurement
from benchmarks.flow_clips import FlowClip
from benchmarks.flow_goals import mean_looks, over_bound
from benchmarks.flow_words import held_by, held_in, without_words, word_class
from benchmarks.samples import Cost, Sample, p95, percentile, speed_up
from benchmarks.tables import Table
from benchmarks.words import Held


def flow_tables(one: Measurement, clips: Mapping[str, FlowClip]) -> Iterator[Table]:
    """Yield everything that was found under one condition."""
    samples = one.samples
    names = list(dict.fromkeys(sample.contestant for sample in samples))
    yield _whole(samples, names)
    yield _words(samples, names, clips)
    yield _answers(samples)
    yield _by_clip(samples, names)
    yield _bounds(one)
    yield _stages(samples, names)


def _whole(samples: Sequence[Sample], names: Sequence[str]) -> Table:
    """Summarise the whole flow over all clips and runs."""
    rows = []
    for name in names:
        mine = _of(samples, name)
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


def _words(samples: Sequence[Sample], names: Sequence[str], clips: Mapping[str, FlowClip]) -> Table:
    """List the share of the words that each answer holds: all runs together, and the worst of those in time."""
    rows = []
    for clip in (clips[name] for name in dict.fromkeys(sample.clip for sample in samples)):
        if clip.truth is None:
            continue
        held = {name: [held_by(s, clip) for s in _of(samples, name) if s.clip == clip.name] for name in names}
        length, worst = held[BUDGETED][0].length, min(one.share for one in held[BUDGETED])
        totals = [f"{sum(held[name], start=Held()).share:.0%}" for name in names]
        rows.append((clip.name, str(word_class(clip) or "-"), str(length), f"{worst:.0%}", *totals))
    by_class = {name: held_in(_of(samples, name), clips) for name in names}
    for group in by_class[BUDGETED]:
        totals = [f"{by_class[name][group].share:.1%}" for name in names]
        rows.append((f"all: {group}", str(group), "", "", *totals))
    out = [clip.name for clip in clips.values() if clip.truth is None]
    note = f" (left out, as the manifest does not tell the words of the part used: {', '.join(out)})" if out else ""
    headings = ("clip", "class", "words or characters", f"worst at {BUDGET_MS} ms", *names)
    return Table(f"Words in time: share of what is said that the answer holds{note}", headings, rows)


def _answers(samples: Sequence[Sample]) -> Table:
    """List the answers with a deadline: when they come, and what they have looked at."""
    answers = _of(samples, BUDGETED)
    rows = [
        _answers_row(clip, [s for s in answers if s.clip == clip]) for clip in dict.fromkeys(s.clip for s in answers)
    ]
    rows.append(_answers_row("all", answers))
    headings = ("clip", "answers", "p50 ms", "p95 ms", "p99 ms", "complete", "without any word")
    return Table(f"Answers at {BUDGET_MS} ms", (*headings, "frames: detect", "ocr", "scene", "unsafe"), rows)


def _answers_row(name: str, answers: Sequence[Sample]) -> tuple[str, ...]:
    wall_ms = [answer.whole.wall_ms for answer in answers]
    return (
        name,
        str(len(answers)),
        *(f"{percentile(wall_ms, rank):.0f}" for rank in (50, 95, 99)),
        _share([answer.complete for answer in answers]),
        str(len(without_words(answers))),
        *(f"{mean_looks(answers, stage):.1f}" for stage in ("detect", "ocr", "scene", "unsafe")),
    )


def _by_clip(samples: Sequence[Sample], names: Sequence[str]) -> Table:
    rows = []
    for clip in dict.fromkeys(sample.clip for sample in samples):
        mine = {name: [s for s in _of(samples, name) if s.clip == clip] for name in names}
        plans = ", ".join(sorted({sample.plan for sample in mine[BUDGETED]}))
        rows.append((clip, *(_median_p95([s.whole.wall_ms for s in mine[name]]) for name in names), plans))
    return Table("Wall ms by clip, median / p95", ("clip", *names, f"plans at {BUDGET_MS} ms"), rows)


def _bounds(one: Measurement) -> Table:
    """List how long clips take without a deadline beside what no schedule could go below."""
    rows, cores = [], len(one.condition.cores)
    for clip in dict.fromkeys(sample.clip for sample in one.samples):
        mine = [sample for sample in _of(one.samples, OURS) if sample.clip == clip]
        wall_ms = median(sample.whole.wall_ms for sample in mine)
        cpu_ms = median((sample.whole.cpu_ms or 0.0) / cores for sample in mine)
        chain_ms = median(sample.chain_ms or 0.0 for sample in mine)
        rows.append((clip, *(f"{ms:.0f}" for ms in (wall_ms, cpu_ms, chain_ms)), f"{over_bound(one, clip):.2f}"))
    headings = ("clip", "wall ms", f"own CPU ms / {cores}", "longest chain ms", "wall / larger of both")
    return Table(f"{OURS}: no deadline, medians", headings, rows)


def _stages(samples: Sequence[Sample], names: Sequence[str]) -> Table:
    """List what single stages cost. CPU time only of those who can tell it."""
    columns: list[tuple[str, dict[str, str]]] = []
    for name in names:
        costs: dict[str, list[Cost]] = {}
        for sample in _of(samples, name):
            for stage, cost in sample.stages.items():
                costs.setdefault(stage, []).append(cost)
        columns.append((name, {stage: _median_p95([c.wall_ms for c in mine]) for stage, mine in costs.items()}))
        known = {stage: [c.cpu_ms for c in mine if c.cpu_ms is not None] for stage, mine in costs.items()}
        if any(known.values()):
            columns.append((f"{name}, CPU", {stage: _median_p95(values) for stage, values in known.items()}))
    stages = dict.fromkeys(stage for _, cells in columns for stage in cells)
    rows = [(stage, *(cells.get(stage, "-") for _, cells in columns)) for stage in stages]
    return Table("Stages, ms of running without waiting, median / p95", ("stage", *(name for name, _ in columns)), rows)


def _of(samples: Sequence[Sample], contestant: str) -> list[Sample]:
    return [sample for sample in samples if sample.contestant == contestant]


def _share(verdicts: Sequence[bool | None]) -> str:
    known = [verdict for verdict in verdicts if verdict is not None]
    return f"{sum(known) / len(known):.0%}" if known else "-"


def _median_p95(values: Sequence[float]) -> str:
    return f"{median(values):.0f} / {p95(values):.0f}"

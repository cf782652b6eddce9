"""What the flow promises, judged over all conditions that were measured. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median

from benchmarks.flow_child import BUDGET_MS, BUDGETED, OURS, Measurement
from benchmarks.flow_clips import FlowClip
from benchmarks.flow_words import ENGLISH, MANDARIN, held_in, without_words
from benchmarks.llm_findings import Goal, unmeasured
from benchmarks.samples import Sample, percentile, speed_up
from pipeline.plans import plan_named

AIMS: tuple[tuple[str, str, int, float], ...] = (
    (ENGLISH, "avx2", 2, 0.95),
    (MANDARIN, "avx2", 2, 0.60),
    (ENGLISH, "avx512", 2, 1.0),
    (MANDARIN, "avx512", 2, 0.95),
    (ENGLISH, "", 1, 0.50),
)
"""Share of the words in time: of which speech, on which vector units ("" any), on how many cores (2: or more)."""

ISA = {"avx2": "AVX2", "avx512": "AVX-512", "": "any"}

LEAN = plan_named("lean").shares
MOST_OVER = 1.15
FASTER = 3.0
SCRIPT = "script"


def flow_goals(found: Sequence[Measurement], clips: Mapping[str, FlowClip], *, absent: Mapping[str, str]) -> list[Goal]:
    """Return every promise and what came of it. ``absent``: why a condition was not measured, by its name."""
    goals = [goal for aim in AIMS for goal in _words(found, clips, aim=aim, absent=absent)]
    for one in found:
        goals += _answers(one)
    goals += _looks(found, absent)
    goals += [_span(one) for one in found]
    return [*goals, _script(found, clips)]


def _words(
    found: Sequence[Measurement],
    clips: Mapping[str, FlowClip],
    *,
    aim: tuple[str, str, int, float],
    absent: Mapping[str, str],
) -> Iterator[Goal]:
    speech, isa, cores, least = aim
    where = "one core" if cores == 1 else f"two cores, {ISA[isa]}"
    needed = f">= {least:.0%}"
    fitting = [one for one in found if _is_like(one, isa=isa, cores=cores)]
    held = held_in(_budgeted(fitting[0]), clips) if fitting else {}
    groups = [group for group in held if group.speech == speech]
    for group in groups:
        total = held[group]
        got = f"{total.share:.1%} ({total.found} of {total.length})"
        yield Goal(f"words in {BUDGET_MS} ms, {group}: {where}", needed, got, total.share >= least)
    if not groups:
        reason = "no such clip" if fitting else _why(absent, isa=isa, cores=cores)
        yield unmeasured(f"words in {BUDGET_MS} ms, {speech}: {where}", needed, reason)


def _is_like(one: Measurement, *, isa: str, cores: int) -> bool:
    count = len(one.condition.cores)
    return (count == 1 if cores == 1 else count >= cores) and isa in ("", one.condition.isa)


def _why(absent: Mapping[str, str], *, isa: str, cores: int) -> str:
    if cores == 1:
        return absent.get("one-core", "needs one core")
    return absent.get("avx2" if isa == "avx2" else "native", f"no {ISA[isa]} on two cores here")


def _answers(one: Measurement) -> Iterator[Goal]:
    answers, where = _budgeted(one), _where(one)
    p99_ms = percentile((answer.whole.wall_ms for answer in answers), 99)
    yield Goal(f"p99 at {BUDGET_MS} ms: {where}", f"<= {BUDGET_MS} ms", f"{p99_ms:.0f} ms", p99_ms <= BUDGET_MS)
    if len(one.condition.cores) > 1:  # with one, none is idle
        mute = len(without_words(answers))
        yield Goal(f"answers without any word: {where}", "0", f"{mute} of {len(answers)}", not mute)


def _looks(found: Sequence[Measurement], absent: Mapping[str, str]) -> Iterator[Goal]:
    least = {name: LEAN[name] for name in ("detect", "ocr")}
    name, needed = f"frames looked at in {BUDGET_MS} ms: two cores, AVX2", _frames(least)
    one = next((one for one in found if _is_like(one, isa="avx2", cores=2)), None)
    if one is None:
        yield unmeasured(name, f">= {needed}", _why(absent, isa="avx2", cores=2))
        return
    got = {stage: mean_looks(_budgeted(one), stage) for stage in least}
    yield Goal(name, f">= {needed}", _frames(got), all(got[stage] >= least[stage] for stage in least))


def mean_looks(answers: Sequence[Sample], stage: str) -> float:
    """Return how many frames ``stage`` had seen on average."""
    return mean(answer.looks.get(stage, 0) for answer in answers)


def _frames(looks: Mapping[str, float]) -> str:
    return ", ".join(f"{stage} {count:.3g}" for stage, count in looks.items())


def _span(one: Measurement) -> Goal:
    name = f"slowest clip beside its bound, no deadline: {_where(one)}"
    worst = max(over_bound(one, clip) for clip in {sample.clip for sample in one.samples})
    return Goal(name, f"<= {MOST_OVER:.2f}", f"{worst:.2f}", worst <= MOST_OVER)


def over_bound(one: Measurement, clip: str) -> float:
    """Return how many times as long as it must ``clip`` takes without a deadline (median).

    It must take as long as its own CPU time spread over all cores, and as its longest chain.
    """
    return median(
        sample.whole.wall_ms / max((sample.whole.cpu_ms or 0.0) / len(one.condition.cores), sample.chain_ms or 0.0)
        for sample in one.samples
        if sample.contestant == OURS and sample.clip == clip
    )


def _script(found: Sequence[Measurement], clips: Mapping[str, FlowClip]) -> Goal:
    name, needed = f"script / {OURS}, with no fewer words", f">= {FASTER:g}"
    one = next((one for one in found if any(sample.contestant == SCRIPT for sample in one.samples)), None)
    if one is None:
        return unmeasured(name, needed, "needs the baseline: make bench-baseline")
    ratio = speed_up(one.samples, of=OURS, over=SCRIPT)
    ours, theirs = (_all_words(one, clips, who=who) for who in (OURS, SCRIPT))
    got = f"{ratio:.2f}, words {ours:.0%} beside {theirs:.0%}"
    return Goal(f"{name}: {_where(one)}", needed, got, ratio >= FASTER and ours >= theirs)


def _all_words(one: Measurement, clips: Mapping[str, FlowClip], *, who: str) -> float:
    held = held_in([sample for sample in one.samples if sample.contestant == who], clips)
    return mean(total.share for total in held.values()) if held else 1.0


def _where(one: Measurement) -> str:
    title = one.condition.title
    return title[0].lower() + title[1:]


def _budgeted(one: Measurement) -> list[Sample]:
    return [sample for sample in one.samples if sample.contestant == BUDGETED]

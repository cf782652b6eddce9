"""Part "speed": CPU time of a prefill and of decoding, beside llama.cpp, transformers and vLLM.

All have the same weights, and continue the same made-up prompts by the same number of tokens, none of which ends the
text. What a step of decoding costs is the difference between long and short continuations of prompts of one length.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.llm_contestants import Contestant, Contestants, NotMeasured
from benchmarks.llm_findings import Findings, Goal, Progress, at_least, at_most, paired_ratio, unmeasured
from benchmarks.llm_prompts import Prompt, made_up_prompt
from benchmarks.samples import Cost
from benchmarks.tables import Table

OURS = ("ours int8", "ours f32")
LLAMA_CPP, TRANSFORMERS, VLLM = "llama.cpp", "transformers", "vLLM-CPU"
NAMES = (*OURS, LLAMA_CPP, TRANSFORMERS, VLLM)

PREFILL_TOKENS = 256
DECODE_FROM_TOKENS = 128
DECODE_STEPS = 32
BATCH = 8


@dataclass(slots=True)
class Costs:
    """Of one contestant, one entry a round. Decoding: of one step."""

    prefill: list[Cost] = field(default_factory=list)
    step_of_one: list[Cost] = field(default_factory=list)
    step_of_batch: list[Cost] = field(default_factory=list)

    def prefill_cpu_ms(self) -> list[float]:
        """Return the CPU ms of a prefill, by round."""
        return [cpu_ms(cost) for cost in self.prefill]

    def tokens_a_cpu_s(self) -> list[float]:
        """Return the tokens decoded in a second of CPU time, ``BATCH`` sequences at a time, by round."""
        return [BATCH * 1e3 / cpu_ms(cost) for cost in self.step_of_batch]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A promise about ourselves beside a rival."""

    name: str
    rival: str
    values: Callable[[Costs], list[float]]
    judge: Callable[[str, float, float], Goal]
    limit: float

    def goal(self, ours: str, costs: dict[str, Costs], absent: dict[str, str]) -> Goal:
        """Judge ``ours`` by the rounds that both took part in."""
        name = f"{self.name}, {ours} / {self.rival}"
        for one in (ours, self.rival):
            if one in absent:
                return unmeasured(
                    name, f"{'<=' if self.judge is at_most else '>='} {self.limit:g}", f"{one}: {absent[one]}"
                )
        ratio = paired_ratio(self.values(costs[ours]), self.values(costs[self.rival]))
        return self.judge(name, self.limit, ratio)


COMPARISONS = (
    Comparison(f"CPU of a prefill of {PREFILL_TOKENS} tokens", LLAMA_CPP, Costs.prefill_cpu_ms, at_most, 0.75),
    Comparison(f"tokens a CPU-second, {BATCH} sequences", LLAMA_CPP, Costs.tokens_a_cpu_s, at_least, 1.2),
    Comparison(f"tokens a CPU-second, {BATCH} sequences", VLLM, Costs.tokens_a_cpu_s, at_least, 2.0),
)


def measure(contestants: Contestants, *, rounds: int, progress: Progress) -> Findings:
    """Let all take turns ``rounds`` times, after one round that warms up."""
    costs, absent = _take_turns(contestants, rounds=rounds, progress=progress)
    goals = [comparison.goal(ours, costs, absent) for ours in OURS for comparison in COMPARISONS]
    return Findings([_table(costs)], goals, absent)


def _take_turns(
    contestants: Contestants, *, rounds: int, progress: Progress
) -> tuple[dict[str, Costs], dict[str, str]]:
    """Return the costs of those who took part in every round, and why the others did not."""
    costs = {name: Costs() for name in NAMES}
    absent: dict[str, str] = {}
    for number in range(rounds + 1):
        first = number % len(NAMES)  # nobody always comes after the same one
        for name in (*NAMES[first:], *NAMES[:first]):
            if name in absent:
                continue
            progress(f"round {number} of {rounds}: {name}")
            try:
                _run(contestants.get(name), costs[name] if number else Costs(), seed=str(number))
            except NotMeasured as reason:
                absent[name] = str(reason)
                del costs[name]
    return costs, absent


def _run(contestant: Contestant, costs: Costs, *, seed: str) -> None:
    costs.prefill.append(_generate(contestant, [made_up_prompt(PREFILL_TOKENS, seed=seed)], new_tokens=1))
    costs.step_of_one.append(_step(contestant, batch=1, seed=seed))
    costs.step_of_batch.append(_step(contestant, batch=BATCH, seed=seed))


def _step(contestant: Contestant, *, batch: int, seed: str) -> Cost:
    def prompts(kind: str) -> list[Prompt]:
        return [made_up_prompt(DECODE_FROM_TOKENS, seed=f"{seed} {batch} {kind} {number}") for number in range(batch)]

    short = _generate(contestant, prompts("short"), new_tokens=1)
    long = _generate(contestant, prompts("long"), new_tokens=1 + DECODE_STEPS)
    return Cost((long.wall_ms - short.wall_ms) / DECODE_STEPS, (cpu_ms(long) - cpu_ms(short)) / DECODE_STEPS)


def _generate(contestant: Contestant, prompts: Sequence[Prompt], *, new_tokens: int) -> Cost:
    cost, found = contestant.ask("generate", prompts=prompts, new_tokens=new_tokens)
    if found != len(prompts) * new_tokens:
        raise NotMeasured(f"gave {found} tokens instead of {len(prompts) * new_tokens}")
    return cost


def cpu_ms(cost: Cost) -> float:
    """Return the CPU time, which contestants always tell."""
    assert cost.cpu_ms is not None
    return cost.cpu_ms


def _table(costs: dict[str, Costs]) -> Table:
    headings = (
        "contestant",
        f"prefill of {PREFILL_TOKENS}, CPU / wall ms",
        "step of 1, CPU / wall ms",
        f"step of {BATCH}, CPU / wall ms",
        f"tokens a CPU-s at {BATCH}",
        f"prefill CPU / {LLAMA_CPP}",
        f"tokens a CPU-s / {LLAMA_CPP}",
    )
    rows = [(name, *_cells(mine, costs.get(LLAMA_CPP))) for name, mine in costs.items()]
    return Table("Speed: medians over rounds, ratios as medians of each round's", headings, rows)


def _cells(mine: Costs, llama_cpp: Costs | None) -> tuple[str, ...]:
    ratios = ("-", "-")
    if llama_cpp is not None:
        prefill = paired_ratio(mine.prefill_cpu_ms(), llama_cpp.prefill_cpu_ms())
        decode = paired_ratio(mine.tokens_a_cpu_s(), llama_cpp.tokens_a_cpu_s())
        ratios = (f"{prefill:.2f}", f"{decode:.2f}")
    costs = (mine.prefill, mine.step_of_one, mine.step_of_batch)
    return (*map(_medians, costs), f"{median(mine.tokens_a_cpu_s()):.0f}", *ratios)


def _medians(costs: Sequence[Cost]) -> str:
    return f"{median(map(cpu_ms, costs)):.1f} / {median(cost.wall_ms for cost in costs):.1f}"

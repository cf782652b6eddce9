"""Parts "prefix" and "abort": what blocks of keys and values are good for, and when they come back."""

from statistics import median

from benchmarks.llm_contestants import Contestants, NotMeasured
from benchmarks.llm_findings import Findings, Progress, at_least, at_most, paired_ratio, unmeasured
from benchmarks.llm_prompts import made_up_prompt
from benchmarks.llm_speed import OURS, cpu_ms
from benchmarks.tables import Table

PREFIX_TOKENS = 400
TAIL_TOKENS = 16
CHEAPER = 5.0

LONG_TOKENS = 256
STEPS = 1.0


def measure_prefix(contestants: Contestants, *, rounds: int, progress: Progress) -> Findings:
    """Prefill two prompts that begin alike, each round others; compare the CPU time of the two."""
    rows, goals = [], []
    for name in OURS:
        promise = f"prefill after a shared prefix of {PREFIX_TOKENS} tokens, times cheaper, {name}"
        try:
            pairs = []
            for number in range(rounds + 1):
                progress(f"round {number} of {rounds}: {name}")
                pairs.append(_pair(contestants, name, seed=str(number)))
        except NotMeasured as reason:
            goals.append(unmeasured(promise, f">= {CHEAPER:g}", str(reason)))
            continue
        first_ms, second_ms = zip(*pairs[1:], strict=True)
        ratio = paired_ratio(first_ms, second_ms)
        rows.append((name, f"{median(first_ms):.1f}", f"{median(second_ms):.1f}", f"{ratio:.1f}"))
        goals.append(at_least(promise, CHEAPER, ratio))
    title = f"Prefill of {PREFIX_TOKENS} + {TAIL_TOKENS} tokens: the second request shares the {PREFIX_TOKENS}"
    return Findings([Table(title, ("contestant", "first, CPU ms", "second, CPU ms", "times cheaper"), rows)], goals)


def _pair(contestants: Contestants, name: str, *, seed: str) -> tuple[float, float]:
    prefix = made_up_prompt(PREFIX_TOKENS, seed=f"prefix {seed}")
    prompts = [prefix + made_up_prompt(TAIL_TOKENS, seed=f"tail {seed} {which}") for which in ("first", "second")]
    costs = [contestants.get(name).ask("generate", prompts=[prompt], new_tokens=1)[0] for prompt in prompts]
    return cpu_ms(costs[0]), cpu_ms(costs[1])


def measure_abort(contestants: Contestants, *, rounds: int, progress: Progress) -> Findings:
    """Abort a long request while another keeps the engine stepping; count the steps until its blocks are free."""
    promise = "steps from an abort until its blocks are free, at most"
    steps = []
    try:
        for number in range(rounds):
            progress(f"abort {number + 1} of {rounds}")
            prompts = [made_up_prompt(LONG_TOKENS, seed=f"{number} {which}") for which in ("victim", "other")]
            _, found = contestants.get(OURS[0]).ask("abort", victim=prompts[0], other=prompts[1])
            steps.append(int(found))
    except NotMeasured as reason:
        return Findings([], [unmeasured(promise, f"<= {STEPS:g}", str(reason))])
    return Findings([], [at_most(promise, STEPS, max(steps))])

"""Part "urgent": how long a request waits for its first token when 32 unimportant ones are running and waiting.

It comes at another moment each round, between the others' first tokens and the middle of their texts: at the same one
for every contestant.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.llm_contestants import Contestant, Contestants, NotMeasured
from benchmarks.llm_findings import Findings, Goal, Progress, at_most, paired_ratio, unmeasured
from benchmarks.llm_prompts import made_up_prompt
from benchmarks.llm_speed import OURS, VLLM
from benchmarks.tables import Table

NAMES = (*OURS, VLLM)
SEATS = 16
"""Of the 32, so many run and the others wait."""

LOW_REQUESTS = 32
LOW_TOKENS = 128
LOW_NEW_TOKENS = 32
URGENT_TOKENS = 256
LATEST_AFTER_TOKENS = 448
"""Of the 1,024 that the others want: the first of them are about to end, and as many as there are seats still wait."""

LIMIT = 1.5


@dataclass(slots=True)
class Waits:
    """Ms until the first token, one entry a round."""

    alone_ms: list[float] = field(default_factory=list)
    urgent_ms: list[float] = field(default_factory=list)
    last_ms: list[float] = field(default_factory=list)


def measure(contestants: Contestants, *, rounds: int, progress: Progress) -> Findings:
    """Let all take turns ``rounds`` times, after one round that warms up."""
    waits = {name: Waits() for name in NAMES}
    absent: dict[str, str] = {}
    for number in range(rounds + 1):
        for name in NAMES:
            if name in absent:
                continue
            progress(f"round {number} of {rounds}: {name}")
            try:
                _run(contestants.get(name), waits[name] if number else Waits(), seed=str(number))
            except NotMeasured as reason:
                absent[name] = str(reason)
                del waits[name]
    return Findings([_table(waits)], [_goal(name, waits, absent) for name in OURS], absent)


def _run(contestant: Contestant, waits: Waits, *, seed: str) -> None:
    waits.alone_ms.append(_wait_ms(contestant, seed=f"{seed} alone", after_tokens=0, low=()))
    after_tokens = random.Random(seed).randint(1, LATEST_AFTER_TOKENS)
    for last, kept in ((False, waits.urgent_ms), (True, waits.last_ms)):
        low = [made_up_prompt(LOW_TOKENS, seed=f"{seed} {last} {number}") for number in range(LOW_REQUESTS)]
        kept.append(_wait_ms(contestant, seed=f"{seed} {last}", after_tokens=after_tokens, low=low, last=last))


def _wait_ms(
    contestant: Contestant, *, seed: str, after_tokens: int, low: Sequence[Sequence[int]], last: bool = False
) -> float:
    _, found = contestant.ask(
        "urgent",
        low=low,
        low_new_tokens=LOW_NEW_TOKENS,
        prompt=made_up_prompt(URGENT_TOKENS, seed=seed),
        after_tokens=after_tokens,
        last=last,
    )
    return float(found)


def _goal(name: str, waits: dict[str, Waits], absent: dict[str, str]) -> Goal:
    promise = f"first token of an urgent request among {LOW_REQUESTS} / alone, {name}"
    if name in absent:
        return unmeasured(promise, f"<= {LIMIT:g}", absent[name])
    return at_most(promise, LIMIT, paired_ratio(waits[name].urgent_ms, waits[name].alone_ms))


def _table(waits: dict[str, Waits]) -> Table:
    headings = ("contestant", "alone", "urgent", "queued last", "urgent / alone", "worst", "queued last / alone")
    rows = [(name, *_cells(mine)) for name, mine in waits.items()]
    title = (
        f"Wall ms until the first token of a request of {URGENT_TOKENS} tokens among {LOW_REQUESTS} low ones"
        f" ({LOW_TOKENS} tokens, {LOW_NEW_TOKENS} wanted, {SEATS} seats), medians"
    )
    return Table(title, headings, rows)


def _cells(mine: Waits) -> tuple[str, ...]:
    walls = (mine.alone_ms, mine.urgent_ms, mine.last_ms)
    worst = max(one / other for one, other in zip(mine.urgent_ms, mine.alone_ms, strict=True))
    ratios = (paired_ratio(mine.urgent_ms, mine.alone_ms), worst, paired_ratio(mine.last_ms, mine.alone_ms))
    return (*(f"{median(values):.0f}" for values in walls), *(f"{ratio:.2f}" for ratio in ratios))

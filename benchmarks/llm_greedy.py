"""Part "greedy": the engine's text beside the exact oracle's, which computes each sequence alone and from scratch."""

from collections.abc import Sequence

from benchmarks.llm_contestants import Contestants, NotMeasured
from benchmarks.llm_findings import Findings, Goal, Progress, unmeasured
from benchmarks.llm_prompts import QUESTIONS
from benchmarks.llm_speed import OURS
from benchmarks.tables import Table

ORACLE = "exact oracle"
EXACT = "ours f32"
IN_WORDS = {name: f"{name}, in words" for name in OURS}
NEW_TOKENS = 32

Tokens = list[int]


def measure(contestants: Contestants, *, progress: Progress) -> Findings:
    """Ask everything at once of the engine, one after another of the oracle; compare token by token."""
    needed = f"{len(QUESTIONS)} of {len(QUESTIONS)}"
    promise = f"greedy text equal to the oracle's, {EXACT}"
    try:
        truth = []
        for number, question in enumerate(QUESTIONS):
            progress(f"{ORACLE}: question {number + 1} of {len(QUESTIONS)}")
            truth += _answers(contestants, ORACLE, [question])
        progress("the engine's answers")
        found = {name: _answers(contestants, asked, QUESTIONS) for name, asked in IN_WORDS.items()}
    except NotMeasured as reason:
        return Findings([], [unmeasured(promise, needed, str(reason))])
    equal = _equal(found[EXACT], truth)
    goal = Goal(promise, needed, f"{equal} of {len(truth)}", equal == len(truth))
    return Findings([_table(found, truth)], [goal])


def _answers(contestants: Contestants, name: str, questions: Sequence[str]) -> list[Tokens]:
    _, found = contestants.get(name).ask("answers", questions=questions, new_tokens=NEW_TOKENS)
    return [list(tokens) for tokens in found]


def _table(found: dict[str, list[Tokens]], truth: list[Tokens]) -> Table:
    total = sum(map(len, truth))
    rows = []
    for name, answers in found.items():
        same = sum(agreeing(one, other) for one, other in zip(answers, truth, strict=True))
        rows.append((name, f"{_equal(answers, truth)} of {len(truth)}", f"{same} of {total}"))
    title = f"Greedy text beside the exact oracle's: {len(QUESTIONS)} questions, at most {NEW_TOKENS} tokens each"
    return Table(title, ("contestant", "equal answers", "tokens before the first difference"), rows)


def _equal(answers: Sequence[Tokens], truth: Sequence[Tokens]) -> int:
    return sum(one == other for one, other in zip(answers, truth, strict=True))


def agreeing(one: Tokens, other: Tokens) -> int:
    """Return how many tokens are the same before the first that is not."""
    differ = (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))

"""Prints the accuracy report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.captions import CaptionScore
from benchmarks.hard import HardScore
from benchmarks.scoring import ClipScore, Goal, held_words
from benchmarks.sights import ObjectScore
from benchmarks.words import Errors, Held

MARK = {True: "[green]yes[/]", False: "[red]NO[/]", None: "-"}
PLAIN_MARK = {True: "yes", False: "NO"}


@dataclass(frozen=True, slots=True)
class InTime:
    """The same clips with a deadline, and what became of the goals then."""

    budget_ms: int
    clips: Sequence[ClipScore]
    goals: Sequence[Goal]


def print_report(
    scores: Sequence[ClipScore],
    hard: Sequence[HardScore],
    kept: Sequence[Goal],
    *,
    peaks_bytes: Mapping[str, int],
    in_time: InTime | None = None,
) -> None:
    """Print every clip, the hard cases that went wrong, the largest processes, and the goals, with what is in time."""
    console = Console(width=None if Console().is_terminal else 200, highlight=False)
    if in_time:
        _print_clips(console, in_time.clips, title=f"Clips at {in_time.budget_ms} ms")
    _print_clips(console, scores, title="Clips without a deadline" if in_time else "Clips")
    if hard:
        console.print(_hard(hard))
    console.print(_memory(peaks_bytes))
    if in_time is None:
        console.print(_goals(kept))
    else:
        headings, *rows = both_goals(scores, kept, in_time)
        table = Table(*headings, title="Goals")
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)


def both_goals(scores: Sequence[ClipScore], kept: Sequence[Goal], in_time: InTime) -> list[tuple[str, ...]]:
    """Return headings, then every goal without a deadline and beside it with one, then the words that are there.

    "-": of this there is nothing to be judged.
    """
    budget = f"{in_time.budget_ms} ms"
    rows: list[tuple[str, ...]] = [("goal", "needed", "no deadline", "met", budget, f"met at {budget}")]
    soon = {goal.name: goal for goal in in_time.goals}
    for goal in kept:
        other = soon.get(goal.name)
        rows.append((goal.name, goal.needed, goal.got, PLAIN_MARK[goal.met], *_got(other)))
    late, early = held_words(scores), held_words(in_time.clips)
    rows += [(name, "", _held(late.get(name)), "", _held(early.get(name)), "") for name in late | early]
    return rows


def _got(goal: Goal | None) -> tuple[str, str]:
    return ("-", "-") if goal is None else (goal.got, PLAIN_MARK[goal.met])


def _held(held: Held | None) -> str:
    return "-" if held is None else f"{held.share:.1%} ({held.found} of {held.length})"


def _print_clips(console: Console, scores: Sequence[ClipScore], *, title: str) -> None:
    if scores:
        console.print(_clips(scores, title=title))
    for score in scores:
        _print_details(console, score)


def _clips(scores: Sequence[ClipScore], *, title: str) -> Table:
    table = Table(title=title)
    for heading in ("clip", "status", "plan", "ms", "silent", "WER", "CER", "language", "objects", "false", "captions"):
        table.add_column(heading, justify="left" if heading == "clip" else "right")
    table.add_column("scene")
    for score in scores:
        table.add_row(
            score.name,
            score.status,
            score.plan,
            f"{score.latency_ms:.0f}",
            MARK[None if score.invented_words is None else not score.invented_words],
            _errors(score.speech.words if score.speech else None),
            _errors(score.speech.characters if score.speech else None),
            MARK[score.language_right],
            _of(score.objects),
            _false(score),
            _of(score.captions),
            f"{MARK[score.scene_sensible]} {escape(score.scene)}",
        )
    return table


def _errors(errors: Errors | None) -> str:
    return "-" if errors is None else f"{errors.rate:.2f}"


def _of(score: ObjectScore | CaptionScore | None) -> str:
    if score is None or not (score.found or score.missed):
        return "-"
    return f"{len(score.found)}/{len(score.found) + len(score.missed)}"


def _false(score: ClipScore) -> str:
    return "-" if score.objects is None or score.objects.false is None else str(len(score.objects.false))


def _print_details(console: Console, score: ClipScore) -> None:
    """Print what exactly went wrong, so that nobody has to run it again to find out."""
    wrong = []
    if score.objects and score.objects.missed:
        wrong.append(f"missed {', '.join(score.objects.missed)}")
    if score.objects and score.objects.false:
        wrong.append(f"false {', '.join(score.objects.false)}")
    if score.captions and score.captions.missed:
        wrong.append(f"not read {', '.join(map(repr, score.captions.missed))}")
    if score.scene_sensible is False:
        wrong.append(f"scene {score.scene or 'none'}")
    if score.heard and (score.invented_words or _is_misheard(score)):
        wrong.append(f"heard {score.heard!r}")
    if wrong:
        console.print(f"  [bold]{escape(score.name)}[/]: {escape('; '.join(wrong))}")


def _is_misheard(score: ClipScore) -> bool:
    parts = (score.speech.words, score.speech.characters) if score.speech else ()
    return score.language_right is False or any(part is not None and part.errors for part in parts)


def _hard(hard: Sequence[HardScore]) -> Table:
    right = sum(not score.wrong for score in hard)
    table = Table(title=f"Hard cases: {right} of {len(hard)} as expected; those that are not")
    for heading in ("case", "answer", "s", "what is wrong"):
        table.add_column(heading)
    for score in hard:
        if score.wrong:
            table.add_row(escape(score.name), score.answer, f"{score.seconds:.1f}", escape("; ".join(score.wrong)))
    return table


def _memory(peaks_bytes: Mapping[str, int]) -> Table:
    table = Table(title="Largest processes")
    table.add_column("peak MiB", justify="right")
    table.add_column("process")
    for name, peak_bytes in list(peaks_bytes.items())[:4]:
        table.add_row(f"{peak_bytes / 2**20:.0f}", escape(name))
    return table


def _goals(kept: Sequence[Goal]) -> Table:
    table = Table(title="Goals")
    for heading in ("goal", "needed", "got", "met"):
        table.add_column(heading)
    for goal in kept:
        table.add_row(goal.name, goal.needed, goal.got, MARK[goal.met])
    return table

"""Prints the accuracy report."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.captions import CaptionScore
from benchmarks.hard import HardScore
from benchmarks.scoring import ClipScore, Goal
from benchmarks.sights import ObjectScore
from benchmarks.words import Errors

MARK = {True: "[green]yes[/]", False: "[red]NO[/]", None: "-"}


def print_report(
    scores: Sequence[ClipScore], hard: Sequence[HardScore], kept: Sequence[Goal], *, peaks_bytes: Mapping[str, int]
) -> None:
    """Print every clip, the hard cases that went wrong, the largest processes, and the goals."""
    console = Console(width=None if Console().is_terminal else 200, highlight=False)
    if scores:
        console.print(_clips(scores))
    for score in scores:
        _print_details(console, score)
    if hard:
        console.print(_hard(hard))
    console.print(_memory(peaks_bytes))
    console.print(_goals(kept))


def _clips(scores: Sequence[ClipScore]) -> Table:
    table = Table(title="Clips")
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

"""Shows a result on a terminal. Words of the clip were made plain by fusion; nothing here is read as markup."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipeline.gaps import missing, rests_on
from pipeline.plain_text import plain
from schemas.result import Basis, FusedResult, Judgement, Label, ResultStatus, StageStatus

STATUS_STYLES = {
    ResultStatus.COMPLETE: "bold green",
    ResultStatus.PARTIAL: "bold yellow",
    ResultStatus.EXPIRED: "bold magenta",
    ResultStatus.REJECTED: "bold red",
}

STAGE_STYLES = {
    StageStatus.OK: "green",
    StageStatus.ABSENT: "dim",
    StageStatus.SKIPPED: "dim",
    StageStatus.TIMED_OUT: "yellow",
    StageStatus.FAILED: "red",
}

BAR_CELLS = 32


def show(console: Console, name: str, result: FusedResult, *, budget_ms: int | None) -> None:
    """Print one result. ``name`` is the input as the user gave it."""
    console.print(_headline(name, result, budget_ms))
    if result.error is not None:
        console.print(Padding(Text(f"{result.error.code}: {result.error.message}", style="red"), (0, 0, 1, 2)))
        return
    console.print(Padding(Group(_findings(result), _stages(result, budget_ms)), (0, 0, 1, 2)))


def _headline(name: str, result: FusedResult, budget_ms: int | None) -> Text:
    budget = f" of {budget_ms}" if budget_ms else ""
    line = Text()
    line.append(plain(name), style="bold")
    line.append("  ")
    line.append(result.status, style=STATUS_STYLES[result.status])
    line.append(f"  {result.latency_ms:.0f}{budget} ms", style="dim")
    return line


def _findings(result: FusedResult) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for heading, text in _rows(result):
        if text:
            table.add_row(heading, Text(text))
    return table


def _rows(result: FusedResult) -> list[tuple[str, str]]:
    return [
        ("summary", result.summary),
        *(("missing", words) for words in missing(result)),
        ("media", _media(result)),
        ("objects", ", ".join(f"{o.label} x{o.max_count}" for o in result.objects)),
        ("scene", _labels(result.scene)),
        ("on screen", " / ".join(span.text for span in result.text)),
        ("speech", f"[{result.speech.language}] {result.speech.text}" if result.speech and result.speech.text else ""),
        ("sentiment", _judgement(result.sentiment, result.based_on.sentiment)),
        ("safety", _judgement(result.safety, result.based_on.safety)),
        ("topics", _labels(result.topics)),
        ("keywords", ", ".join(result.keywords)),
        ("plan", f"{result.plan.name}: {result.plan.reason}" if result.plan else ""),
        *(("warning", f"{warning.code}: {warning.message}") for warning in result.warnings),
    ]


def _media(result: FusedResult) -> str:
    media = result.media
    if media is None:
        return ""
    size = (
        f"{media.width}x{media.height}, {media.frame_count} frames, {media.video_codec}"
        if media.width
        else "no pictures"
    )
    return f"{media.duration_s:.2f} s, {size}, {media.audio_codec or 'no sound'}"


def _labels(labels: tuple[Label, ...]) -> str:
    return ", ".join(f"{label.label} {label.score:.2f}" for label in labels[:3])


def _judgement(judgement: Judgement | None, basis: Basis) -> str:
    """Return a verdict and what it rests on, in words; empty when there was nothing to judge."""
    if judgement is None:
        return "not known" if basis.missing else ""
    rest = rests_on(basis)
    only = " only" if basis.missing else ""
    return f"{judgement.label} {judgement.score:.2f}" + (f", from {rest}{only}" if rest else "")


def _stages(result: FusedResult, budget_ms: int | None) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    span_ms = max(result.latency_ms, float(budget_ms or 0), 1.0)
    for name, report in result.stages.items():
        bar = _bar(report.start_ms / span_ms, report.elapsed_ms / span_ms)
        status = Text(report.status, style=STAGE_STYLES[report.status])
        detail = report.error if report.error and report.status is StageStatus.FAILED else (report.plan or "")
        table.add_row(
            Text(name, style="cyan"),
            Text(bar, style="blue"),
            f"{report.elapsed_ms:.0f} ms",
            status,
            Text(detail, style="dim"),
        )
    return table


def _bar(start: float, length: float) -> str:
    first = min(BAR_CELLS - 1, int(start * BAR_CELLS))
    cells = max(1, min(BAR_CELLS - first, round(length * BAR_CELLS))) if length else 0
    return (" " * first + "━" * cells).ljust(BAR_CELLS)

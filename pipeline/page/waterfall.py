"""The stages of a job as bars against the budget line."""

from dataclasses import dataclass

from pipeline.page.scale import Scale
from schemas.result import FusedResult, StageReport, StageStatus

HEADROOM = 1.04
"""Room right of the last bar, so that an end and the budget line can be told from the frame."""

NOT_RUN = {StageStatus.ABSENT, StageStatus.SKIPPED}


@dataclass(frozen=True, slots=True)
class Bar:
    """One stage. ``x``, ``queue_width`` and ``run_width`` are percentages of the axis."""

    name: str
    report: StageReport
    x: str
    queue_width: str
    run_x: str
    run_width: str
    drawn: bool


@dataclass(frozen=True, slots=True)
class Waterfall:
    """All bars on one axis in milliseconds. ``budget_x`` is None without a deadline."""

    scale: Scale
    bars: tuple[Bar, ...]
    budget_ms: int | None
    budget_x: str | None
    late_width: str | None
    answer_width: str

    def gap(self, value_ms: float) -> float:
        """Return how far from the budget line ``value_ms`` is drawn, as a fraction of the axis."""
        return abs(self.scale.fraction(value_ms) - self.scale.fraction(self.budget_ms)) if self.budget_ms else 1.0


def build_waterfall(result: FusedResult, *, budget_ms: int | None) -> Waterfall:
    """Lay out ``result.stages``: in the order they started, those that never ran last."""
    ends = [report.start_ms + report.elapsed_ms for report in result.stages.values()]
    scale = Scale(max([*ends, result.latency_ms, budget_ms or 0, 1.0]) * HEADROOM)
    ordered = sorted(result.stages.items(), key=lambda item: (_never_ran(item[1]), item[1].start_ms))
    return Waterfall(
        scale=scale,
        bars=tuple(_bar(name, report, scale) for name, report in ordered),
        budget_ms=budget_ms,
        budget_x=scale.at(budget_ms) if budget_ms else None,
        late_width=scale.length(budget_ms, scale.end) if budget_ms else None,
        answer_width=scale.at(result.latency_ms),
    )


def _bar(name: str, report: StageReport, scale: Scale) -> Bar:
    run_ms = report.start_ms + min(report.queue_ms, report.elapsed_ms)
    end_ms = report.start_ms + report.elapsed_ms
    return Bar(
        name=name,
        report=report,
        x=scale.at(report.start_ms),
        queue_width=scale.length(report.start_ms, run_ms),
        run_x=scale.at(run_ms),
        run_width=scale.length(run_ms, end_ms, at_least=0.003),
        drawn=not _never_ran(report),
    )


def _never_ran(report: StageReport) -> bool:
    return report.status in NOT_RUN and report.elapsed_ms == 0

"""Everything a clip's page shows, worked out before the template runs."""

import json
import re
from dataclasses import dataclass
from typing import Any

from pipeline.gaps import Gap, gaps, missing
from pipeline.page.advice import ADVICE
from pipeline.page.entry import PageEntry
from pipeline.page.files import Player
from pipeline.page.pictures import Picture, best_picture, hues_of
from pipeline.page.timeline import Timeline, build_timeline
from pipeline.page.waterfall import Waterfall, build_waterfall
from pipeline.page.wording import STATUS_TITLES, milliseconds, one_line
from schemas.result import FusedResult, ResultStatus


@dataclass(frozen=True, slots=True)
class Verdict:
    """The headline: how whole the answer is, and whether it came in time. ``in_time`` is None without a deadline."""

    status: ResultStatus
    title: str
    explanation: str
    latency: str
    against: str
    in_time: bool | None


@dataclass(frozen=True, slots=True)
class ClipView:
    """One clip, ready for its template. ``folder`` is relative to the report's ``clips`` folder."""

    name: str
    folder: str
    result: FusedResult
    verdict: Verdict
    advice: str
    pictures: tuple[Picture, ...]
    poster: Picture | None
    player: Player | None
    timeline: Timeline
    waterfall: Waterfall
    gaps: tuple[Gap, ...]

    def why(self, *subjects: str) -> str:
        """Return why something is not known that rests on ``subjects``; empty when nothing of them is missing."""
        return "; ".join(gap.words for gap in self.gaps if gap.subject in subjects)

    @property
    def wire(self) -> Any:
        """The result exactly as it goes over the wire, as plain JSON values."""
        return json.loads(self.result.model_dump_json())

    @property
    def wire_text(self) -> str:
        """The same, laid out for reading: one line a field, lists of numbers on one line."""
        laid_out = json.dumps(self.wire, indent=2, ensure_ascii=False)
        # A string can't hold a raw line break in JSON, so this finds lists of bare numbers only.
        return re.sub(r"\[\n\s+([-\d][-+.\deE,\s]*)\n\s+\]", lambda m: f"[{' '.join(m[1].split())}]", laid_out)


def view_clip(entry: PageEntry, folder: str, *, pictures: tuple[Picture, ...], player: Player | None) -> ClipView:
    """Return the page's content for ``entry``, whose files lie in ``folder``."""
    result = entry.result
    return ClipView(
        name=one_line(entry.name),
        folder=folder,
        result=result,
        verdict=judge(result, budget_ms=entry.budget_ms),
        advice=ADVICE[result.error.code] if result.error else "",
        pictures=pictures,
        poster=best_picture(pictures),
        player=player,
        timeline=build_timeline(result, hues=hues_of(result)),
        waterfall=build_waterfall(result, budget_ms=entry.budget_ms),
        gaps=gaps(result),
    )


def judge(result: FusedResult, *, budget_ms: int | None) -> Verdict:
    """Return the headline for ``result``."""
    spare_ms = budget_ms - result.latency_ms if budget_ms else None
    return Verdict(
        status=result.status,
        title=STATUS_TITLES[result.status],
        explanation=_explain(result),
        latency=milliseconds(result.latency_ms),
        against=_against(budget_ms, spare_ms=spare_ms),
        in_time=None if spare_ms is None else spare_ms >= 0,
    )


def _against(budget_ms: int | None, *, spare_ms: float | None) -> str:
    if budget_ms is None or spare_ms is None:
        return "no deadline was set"
    rest = f"{milliseconds(spare_ms)} to spare" if spare_ms >= 0 else f"{milliseconds(-spare_ms)} late"
    return f"of {milliseconds(budget_ms)} allowed, {rest}"


def _explain(result: FusedResult) -> str:
    if result.status is ResultStatus.REJECTED:
        return "This input was not analysed."
    if result.status is ResultStatus.COMPLETE:
        return "Every stage gave its answer on the whole clip."
    lost = "; ".join(missing(result)) or "see the warnings below"
    if result.status is ResultStatus.EXPIRED:
        return f"The deadline passed before anything was ready: {lost}."
    return f"Something is missing: {lost}."

"""The templates, filled in."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import jinja2

from pipeline.gaps import rests_on
from pipeline.page import wording
from pipeline.page.scale import percent
from pipeline.page.view import ClipView
from schemas.result import ResultStatus


@dataclass(frozen=True, slots=True)
class Totals:
    """What the index says about all clips together."""

    statuses: tuple[tuple[ResultStatus, str, int], ...]
    answered: int
    in_time: int
    with_deadline: int
    median: str
    slowest: str


def templates() -> jinja2.Environment:
    """Return an environment in which everything is escaped and every printed text is fit to be shown."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("pipeline.page", "assets"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=wording.showable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    env.filters |= {
        "clock": wording.clock,
        "short_clock": wording.short_clock,
        "ms": wording.milliseconds,
        "percent": percent,
        "language": wording.language_name,
        "guess_lang": wording.guess_lang,
        "count_of": wording.count_of,
    }
    env.globals |= {"span": wording.span, "rests_on": rests_on, "stage_words": wording.STAGE_WORDS}
    return env


def render_clip(env: jinja2.Environment, clips: Sequence[ClipView], *, number: int) -> str:
    """Return the page of ``clips[number]``, with links to its neighbours."""
    before = clips[number - 1] if number > 0 else None
    after = clips[number + 1] if number + 1 < len(clips) else None
    page = env.get_template("clip.html")
    return page.render(clip=clips[number], result=clips[number].result, before=before, after=after, root="../../")


def render_index(env: jinja2.Environment, clips: Sequence[ClipView]) -> str:
    """Return the index page."""
    return env.get_template("index.html").render(clips=clips, totals=total(clips), root="")


def total(clips: Sequence[ClipView]) -> Totals:
    """Return the figures over all clips; a rejected input has no latency worth counting."""
    statuses = [clip.result.status for clip in clips]
    answered = [clip for clip in clips if clip.result.status is not ResultStatus.REJECTED]
    latencies = [clip.result.latency_ms for clip in answered] or [0.0]
    return Totals(
        statuses=tuple((s, wording.STATUS_TITLES[s], statuses.count(s)) for s in ResultStatus if s in statuses),
        answered=len(answered),
        in_time=sum(clip.verdict.in_time is True for clip in answered),
        with_deadline=sum(clip.verdict.in_time is not None for clip in answered),
        median=wording.milliseconds(statistics.median(latencies)),
        slowest=wording.milliseconds(max(latencies)),
    )

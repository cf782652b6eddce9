"""What ``halfsecond submit`` and ``halfsecond results`` do: jobs out, answers in, one line each."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from pipeline.bus.kafka import KafkaBus
from pipeline.bus.topics import Topics
from pipeline.client import Answer, Answers, job_of, submit
from pipeline.kafka_settings import kafka_connection
from pipeline.plain_text import plain
from pipeline.settings import Settings
from pipeline.terminal import STATUS_STYLES
from schemas.events import DeadLetter
from schemas.job import Lane, VideoJob
from schemas.result import FusedResult, ResultStatus

ANSWERED = frozenset({ResultStatus.COMPLETE, ResultStatus.PARTIAL})


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """What the user asked for. ``answers_within_s``: None to not wait."""

    clips: tuple[str, ...]
    lane: Lane
    title: str
    description: str
    budget_ms: int | None
    video_id: str | None
    answers_within_s: float | None
    as_json: bool


def submit_clips(options: SubmitOptions, *, settings: Settings) -> bool:
    """Send a job a clip, and show it, or its answer. Returns whether all went well. Raises ``BusError``."""
    jobs = [_job(clip, options) for clip in options.clips]
    bus, topics = KafkaBus(kafka_connection(settings)), Topics(settings.topic_prefix)
    with ExitStack() as stack:
        if options.answers_within_s is None:
            submit(jobs, bus=bus, topics=topics)
            _show_jobs(jobs, as_json=options.as_json)
            return True
        answers = stack.enter_context(Answers(bus, topics))
        submit(jobs, bus=bus, topics=topics)
        came = answers.to((job.job_id for job in jobs), within_s=options.answers_within_s)
        return _show_all_answered(jobs, came, as_json=options.as_json)


def _job(clip: str, options: SubmitOptions) -> VideoJob:
    return job_of(
        clip,
        lane=options.lane,
        title=options.title,
        description=options.description,
        budget_ms=options.budget_ms,
        video_id=options.video_id,
    )


def _show_jobs(jobs: Iterable[VideoJob], *, as_json: bool) -> None:
    for job in jobs:
        line = job.model_dump_json() if as_json else f"{job.job_id}  {job.lane}  {plain(job.video_id)}"
        sys.stdout.write(f"{line}\n")


def _show_all_answered(jobs: Iterable[VideoJob], came: Iterator[Answer], *, as_json: bool) -> bool:
    missing = {job.job_id: job for job in jobs}
    well = True
    for answer in _shown(came, as_json=as_json):
        missing.pop(answer.job_id or "", None)
        well = well and isinstance(answer, FusedResult) and answer.status in ANSWERED
    for job in missing.values():
        sys.stderr.write(f"halfsecond: no answer yet for {plain(job.video_id)} (job {job.job_id})\n")
    return well and not missing


def show_answers(*, follow: bool, as_json: bool, settings: Settings) -> None:
    """Show answers: those that are there, or those to come. Raises ``BusError``."""
    bus, topics = KafkaBus(kafka_connection(settings)), Topics(settings.topic_prefix)
    with Answers(bus, topics, from_start=not follow) as answers:
        for _ in _shown(answers.follow() if follow else answers.present(), as_json=as_json):
            pass


def _shown(answers: Iterable[Answer], *, as_json: bool) -> Iterator[Answer]:
    """Print each answer at once and pass it on."""
    console = Console(highlight=False, soft_wrap=True)
    for answer in answers:
        if as_json:
            sys.stdout.write(answer.model_dump_json() + "\n")
        else:
            console.print(answer_line(answer))
        sys.stdout.flush()
        yield answer


def answer_line(answer: Answer) -> Text:
    """Return an answer in one line. Its words come from clips and broken messages: nothing in them takes effect."""
    if isinstance(answer, DeadLetter):
        original = answer.original
        name = answer.video_id or f"{original.topic}, partition {original.partition}, offset {original.offset}"
        said = f"{answer.code}, {answer.error_class}: {answer.reason}"
        return _line(("dead letter", "bold red"), time_ms=None, name=name, said=said)
    said = answer.summary if answer.error is None else f"{answer.error.code}: {answer.error.message}"
    status = (str(answer.status), STATUS_STYLES[answer.status])
    return _line(status, time_ms=answer.latency_ms, name=answer.video_id, said=said)


def _line(status: tuple[str, str], *, time_ms: float | None, name: str, said: str) -> Text:
    word, style = status
    return Text.assemble(
        (f"{word:<11}", style),
        ("          " if time_ms is None else f"{time_ms:7.0f} ms", "dim"),
        "  ",
        (plain(name, limit=200), "bold"),
        "  ",
        plain(said, limit=300),
    )

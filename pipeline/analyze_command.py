"""``halfsecond analyze``: files in, results out, in input order."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from pipeline.analyze import STAGES, Analysis, Analyzer
from pipeline.app import open_analyzer
from pipeline.page import PageEntry, Report
from pipeline.plain_text import plain
from pipeline.settings import Settings
from pipeline.terminal import show
from schemas.deadline import Deadline
from schemas.errors import ConfigurationError, ErrorCode
from schemas.job import Source, VideoJob
from schemas.result import ResultStatus


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """What the user asked for."""

    paths: tuple[Path, ...]
    as_json: bool
    html: Path | None
    budget_ms: int | None
    llm: bool
    plan: str


class Output(Protocol):
    """Where results go, one at a time, in input order."""

    def add(self, path: Path, analysis: Analysis) -> None:
        """Show one result."""
        ...

    def finish(self) -> None:
        """Be told that it was the last one."""
        ...


class JsonLines:
    """One JSON object a line on standard output."""

    def add(self, path: Path, analysis: Analysis) -> None:
        """Print the result at once: a pipe sees it when it is ready."""
        del path  # the result names its source
        sys.stdout.write(analysis.result.model_dump_json() + "\n")
        sys.stdout.flush()

    def finish(self) -> None:
        """Do nothing."""


class Readable:
    """Text for people on standard output."""

    def __init__(self, budget_ms: int | None) -> None:
        self._console = Console(highlight=False)
        self._budget_ms = budget_ms

    def add(self, path: Path, analysis: Analysis) -> None:
        """Print the result."""
        show(self._console, shown_name(path), analysis.result, budget_ms=self._budget_ms)

    def finish(self) -> None:
        """Do nothing."""


class Pages:
    """Web pages in a folder, put in place when all are done."""

    def __init__(self, folder: Path, budget_ms: int | None) -> None:
        """Raise ``ConfigurationError`` when ``folder`` cannot be used."""
        try:
            self._report = Report(folder)
        except OSError as error:
            raise ConfigurationError(ErrorCode.BAD_SETTING, f"no pages can be written: {error}") from error
        self._budget_ms = budget_ms

    def add(self, path: Path, analysis: Analysis) -> None:
        """Write the clip's page aside."""
        entry = PageEntry(
            result=analysis.result,
            frames=analysis.frames,
            name=shown_name(path),
            media_path=path,
            budget_ms=self._budget_ms,
        )
        self._report.add(entry)

    def finish(self) -> None:
        """Put the report in place and say where."""
        print(self._report.finish())  # noqa: T201  (the command's answer)


def analyze_paths(options: AnalyzeOptions, *, settings: Settings) -> bool:
    """Analyse every path and show its result. Returns whether none was refused."""
    return asyncio.run(_analyze_all(options, settings))


async def _analyze_all(options: AnalyzeOptions, settings: Settings) -> bool:
    output = _output(options)
    refused = 0
    total = len(options.paths)
    with Console(stderr=True).status("Loading models ...") as status:
        async with open_analyzer(settings) as analyzer:
            for number, path in enumerate(options.paths, start=1):
                status.update(f"Analysing {number} of {total}")
                analysis = await _analyze_one(analyzer, path, options)
                refused += analysis.result.status is ResultStatus.REJECTED
                output.add(path, analysis)
    output.finish()
    return refused == 0


def _output(options: AnalyzeOptions) -> Output:
    if options.as_json:
        return JsonLines()
    if options.html is not None:
        return Pages(options.html, options.budget_ms)
    return Readable(options.budget_ms)


async def _analyze_one(analyzer: Analyzer, path: Path, options: AnalyzeOptions) -> Analysis:
    job = job_for(path, budget_ms=options.budget_ms, llm=options.llm)
    deadline = Deadline.after(options.budget_ms / 1e3) if options.budget_ms else Deadline.never()
    return await analyzer.analyze(job, path, deadline=deadline, plan=options.plan)


def job_for(path: Path, *, budget_ms: int | None = None, llm: bool = True) -> VideoJob:
    """Return the job of a file on disk. Its name may hold any bytes; the URI escapes them."""
    return VideoJob(
        video_id=shown_name(path)[:200] or "unnamed",
        source=Source(uri=path.absolute().as_uri()),
        budget_ms=budget_ms,
        want=None if llm else frozenset(STAGES) - {"text"},
    )


def shown_name(path: Path) -> str:
    """Return the file's name as text that can be shown and sent, whatever bytes it is made of."""
    return plain(os.fsencode(path.name).decode("utf-8", "backslashreplace"))

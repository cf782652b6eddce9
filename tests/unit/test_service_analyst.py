"""A clip that cannot be had is an answer, too."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.forecast import Forecast
from pipeline.load import START_SPAN_MS, START_WORK_MS, Load
from pipeline.service.admission import Prospect
from pipeline.service.analyst import LEAST_ANALYSIS_S, ClipAnalyst
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, MediaError
from schemas.job import Source, VideoJob
from schemas.result import ErrorInfo, FusedResult, ResultStatus
from tests.unit.service_parts import job, result


@dataclass
class Fetcher:
    """Brings every clip, or none."""

    error: MediaError | None = None
    asked: tuple[Source, Deadline] | None = None
    open: bool = False

    @asynccontextmanager
    async def fetch(self, source: Source, *, deadline: Deadline) -> AsyncIterator[Path]:
        self.asked = source, deadline
        if self.error is not None:
            raise self.error
        self.open = True
        yield Path("/clip")
        self.open = False


@dataclass
class Analyzer:
    fetcher: Fetcher
    error: Exception | None = None
    workshop: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(slots=SimpleNamespace(count=6), load=Load())
    )
    now_s: float = 50.0

    def clock(self) -> float:
        return self.now_s

    async def analyze(self, job: VideoJob, path: Path, *, deadline: Deadline) -> SimpleNamespace:
        assert self.fetcher.open
        if self.error is not None:
            raise self.error
        return SimpleNamespace(result=result(job, summary=str(path)))


ASKED = job("a")


async def ask(fetcher: Fetcher, error: Exception | None = None) -> FusedResult:
    return await ClipAnalyst(fetcher, Analyzer(fetcher, error))(ASKED, deadline=Deadline(100.0, lambda: 99.5))


async def test_a_clip_is_fetched_analysed_while_it_is_there_and_let_go():
    fetcher = Fetcher()
    assert (await ask(fetcher)).summary == "/clip"
    assert not fetcher.open


async def test_the_fetch_leaves_time_to_look_at_the_clip():
    fetcher = Fetcher()
    await ask(fetcher)
    assert fetcher.asked is not None
    source, deadline = fetcher.asked
    assert source == ASKED.source
    assert deadline.at_s == pytest.approx(100.0 - LEAST_ANALYSIS_S)


@pytest.mark.parametrize(
    ("code", "retryable", "status"),
    [
        (ErrorCode.FETCH_TIMED_OUT, True, ResultStatus.EXPIRED),
        (ErrorCode.FETCH_FAILED, True, ResultStatus.REJECTED),
        (ErrorCode.FETCH_REFUSED, False, ResultStatus.REJECTED),
        (ErrorCode.CHECKSUM_MISMATCH, False, ResultStatus.REJECTED),
        (ErrorCode.NOT_FOUND, False, ResultStatus.REJECTED),
    ],
)
async def test_a_clip_that_cannot_be_had_is_rejected_and_one_that_comes_too_late_expired(code, retryable, status):
    answer = await ask(Fetcher(MediaError(code, "why", retryable=retryable)))
    assert (answer.status, answer.error) == (status, ErrorInfo(code=code, message="why", retryable=retryable))
    assert answer.job_id == "a"


async def test_a_bug_comes_out():
    with pytest.raises(ZeroDivisionError):
        await ask(Fetcher(), ZeroDivisionError())


def test_an_idle_house_has_nothing_left_and_expects_a_typical_job():
    prospect = ClipAnalyst(Fetcher(), Analyzer(Fetcher())).prospect()
    assert prospect == Prospect(cores=6, begun=0, left_s=0.0, work_s=START_WORK_MS / 1e3, span_s=START_SPAN_MS / 1e3)


def test_what_is_left_of_the_jobs_under_way_is_told_in_seconds():
    analyzer = Analyzer(Fetcher())
    load, analyst = analyzer.workshop.load, ClipAnalyst(Fetcher(), analyzer)
    load.begin(
        "a",
        Forecast(
            listening_ms=200, listening_chain_ms=200, looking_ms=0, looking_chain_ms=0, glancing_ms=0, fusing_ms=0
        ),
    )
    load.begin(
        "b",
        Forecast(
            listening_ms=100, listening_chain_ms=100, looking_ms=0, looking_chain_ms=0, glancing_ms=0, fusing_ms=0
        ),
    )
    with load.unit("a", clock=analyzer.clock):
        analyzer.now_s += 0.05
        prospect = analyst.prospect()
    assert (prospect.cores, prospect.begun) == (6, 2)
    assert prospect.left_s == pytest.approx(0.25)
    assert (prospect.work_s, prospect.span_s) == (load.work_ms / 1e3, load.span_ms / 1e3)
    load.end("a")
    assert (analyst.prospect().begun, analyst.prospect().left_s) == (1, pytest.approx(0.1))

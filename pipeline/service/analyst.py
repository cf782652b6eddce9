"""Gets a job's clip and understands it, by the deadline."""

from pipeline.analyze import Analyzer
from pipeline.fetch.fetcher import Fetcher
from pipeline.service.admission import Prospect
from pipeline.service.letters import unanswered
from schemas.deadline import Deadline
from schemas.errors import ErrorCode, MediaError
from schemas.job import VideoJob
from schemas.result import FusedResult, ResultStatus

LEAST_ANALYSIS_S = 0.06
"""A fetch that leaves less than this is given up: nothing could be seen in it."""


class ClipAnalyst:
    """Implements ``Analyst`` over real clips."""

    def __init__(self, fetcher: Fetcher, analyzer: Analyzer) -> None:
        self._fetcher = fetcher
        self._analyzer = analyzer

    async def __call__(self, job: VideoJob, *, deadline: Deadline) -> FusedResult:
        """Return the result. A clip that cannot be had is a rejected one; one that comes too late an expired one."""
        try:
            async with self._fetcher.fetch(job.source, deadline=deadline.reserve(LEAST_ANALYSIS_S)) as path:
                analysis = await self._analyzer.analyze(job, path, deadline=deadline)
        except MediaError as error:
            late = error.code is ErrorCode.FETCH_TIMED_OUT
            return unanswered(job, ResultStatus.EXPIRED if late else ResultStatus.REJECTED, error)
        return analysis.result

    def prospect(self) -> Prospect:
        """Return what the analyses under way still take, and what one more would."""
        workshop = self._analyzer.workshop
        load = workshop.load
        return Prospect(
            cores=workshop.slots.count,
            begun=load.jobs,
            left_s=load.left_ms(self._analyzer.clock()) / 1e3,
            work_s=load.work_ms / 1e3,
            span_s=load.span_ms / 1e3,
        )

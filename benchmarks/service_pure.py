"""What the rivals of part "orchestration" do with each message, apart from carrying it: read, check, answer.

Needs pydantic alone, because each rival has an environment of its own.
"""

from schemas.job import VideoJob
from schemas.result import FusedResult, ResultStatus


def answer(message: bytes) -> tuple[str, bytes]:
    """Return the key and the bytes of the result of a job that nothing was found out about."""
    job = VideoJob.model_validate_json(message, strict=True)
    result = FusedResult(
        pipeline_version="rival",
        job_id=job.job_id,
        video_id=job.video_id,
        source_uri=job.source.uri,
        status=ResultStatus.COMPLETE,
    )
    return result.video_id, result.model_dump_json().encode()

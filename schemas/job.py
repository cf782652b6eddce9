"""One clip to analyse."""

from enum import StrEnum
from typing import Annotated
from uuid import uuid4

from pydantic import AwareDatetime, Field

from schemas.base import WireModel

JOB_SCHEMA_VERSION = 1


class Lane(StrEnum):
    """Which promise the job was made under. ``realtime`` always goes first."""

    REALTIME = "realtime"
    BACKFILL = "backfill"


class Source(WireModel):
    """Where the clip's bytes are (a claim check; the message never carries the video itself)."""

    uri: Annotated[str, Field(min_length=1, max_length=16_384, description="file:, http(s): or s3: URI")]
    sha256: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$")] = None
    size_bytes: Annotated[int | None, Field(ge=0)] = None


class VideoJob(WireModel):
    """A request to analyse one clip within ``budget_ms`` of ``ingested_at``."""

    schema_version: int = JOB_SCHEMA_VERSION
    job_id: Annotated[str, Field(min_length=1, max_length=200)] = Field(default_factory=lambda: uuid4().hex)
    video_id: Annotated[str, Field(min_length=1, max_length=200)]
    source: Source
    title: Annotated[str, Field(max_length=2000)] = ""
    description: Annotated[str, Field(max_length=10_000)] = ""
    lane: Lane = Lane.REALTIME
    priority: Annotated[int, Field(ge=0, le=9, description="Within a lane: smaller first")] = 5
    ingested_at: AwareDatetime | None = None
    budget_ms: Annotated[int | None, Field(gt=0, description="None: no deadline")] = 500
    want: Annotated[frozenset[str] | None, Field(description="Names of the wanted stages; None means all of them")] = (
        None
    )

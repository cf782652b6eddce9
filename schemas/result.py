"""The one answer that every clip gets.

Times are seconds from the clip's first displayed frame, never negative. Boxes are in display space (rotation and
sample aspect applied), origin top left, as fractions ``(x0, y0, x1, y1)`` and, where given, as whole pixels.

**Scores** lie in [0, 1]. What each means, and whether it is calibrated, stands in the field's description.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from schemas.base import WireModel
from schemas.errors import ErrorCode, WarningCode

RESULT_SCHEMA_VERSION = 1

Score = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
BoxFractions = tuple[Fraction, Fraction, Fraction, Fraction]
BoxPixels = tuple[int, int, int, int]


SummaryOrigin = Literal["model", "quote", "pictures"]


class ResultStatus(StrEnum):
    """How whole the answer is."""

    COMPLETE = "complete"  # no wanted stage timed out or failed, and the clip was whole
    PARTIAL = "partial"  # something is missing; the stages and warnings say what
    EXPIRED = "expired"  # the deadline passed before anything was ready
    REJECTED = "rejected"  # not analysed; error says why


class StageStatus(StrEnum):
    """How a stage ended."""

    OK = "ok"
    ABSENT = "absent"  # the clip has no such thing (no sound, no speech, no picture)
    SKIPPED = "skipped"  # not asked for, or a stage before it failed
    TIMED_OUT = "timed_out"  # not ready by the deadline; what was ready is kept
    FAILED = "failed"


class Witness(StrEnum):
    """Who tells something about a clip."""

    PICTURES = "pictures"
    CAPTIONS = "captions"
    SPEECH = "speech"
    TITLE = "title"
    DESCRIPTION = "description"


class ErrorInfo(WireModel):
    """Why there is no (whole) answer. Switch on ``code``; show ``message``."""

    code: ErrorCode
    message: str
    retryable: bool = False


class WarningInfo(WireModel):
    """Something odd about the clip."""

    code: WarningCode
    message: str


class Media(WireModel):
    """What the file is, measured by demuxing all of it (headers are not believed)."""

    duration_s: Annotated[float, Field(ge=0, description="From the first to the end of the last frame or sample")]
    width: Annotated[int | None, Field(description="Displayed width in pixels; None without pictures")] = None
    height: int | None = None
    fps: Annotated[float | None, Field(description="Average frames a second")] = None
    frame_count: Annotated[int, Field(ge=0, description="Pictures in the file")] = 0
    has_audio: bool = False
    rotation: Annotated[int, Field(description="Clockwise degrees that were applied to show the picture upright")] = 0
    video_codec: str | None = None
    audio_codec: str | None = None
    container: str = ""


class Coverage(WireModel):
    """Which part of the clip was really looked at and listened to."""

    frames_analyzed: int = 0
    frames_total: int = 0
    frame_times_s: tuple[Seconds, ...] = ()
    packets_damaged: int = 0
    video_s: Annotated[float, Field(ge=0, description="Length of the pictures that are really in the file")] = 0.0
    audio_s: Annotated[float, Field(ge=0, description="Seconds of sound decoded")] = 0.0
    voice_s: Annotated[float, Field(ge=0, description="Seconds of speech found in the sound decoded")] = 0.0
    speech_s: Annotated[float, Field(ge=0, description="Seconds of it that were written down")] = 0.0
    unwritten: Annotated[
        tuple[tuple[Seconds, Seconds], ...], Field(description="The rest of it: from where to where, ascending")
    ] = ()
    fraction: Annotated[
        Fraction, Field(description="Decodable part of the duration that the file's header promised; 1 when intact")
    ] = 1.0


class Detection(WireModel):
    """One object in one frame.

    ``score``: the detector's sigmoid output, times the classifier's probability where that renamed the object. Not
    calibrated.
    """

    label: str
    score: Score
    box: BoxFractions
    box_px: BoxPixels
    t_s: Seconds
    track_id: Annotated[int | None, Field(description="Same number, same thing, across this clip")] = None


class ObjectSummary(WireModel):
    """One class of object over the clip. ``score``: the highest of its detections."""

    label: str
    max_count: Annotated[int, Field(ge=1, description="Most seen in one frame")]
    t_start_s: Seconds
    t_end_s: Seconds
    score: Score


class Label(WireModel):
    """A named class with its score."""

    label: str
    score: Score


class Shot(WireModel):
    """A stretch without a cut."""

    t_start_s: Seconds
    t_end_s: Seconds


class TextSpan(WireModel):
    """On-screen text. ``score``: mean character confidence of the recogniser, not calibrated."""

    text: str
    score: Score
    box: BoxFractions
    t_start_s: Seconds
    t_end_s: Seconds


class SpeechSegment(WireModel):
    """A stretch of speech. ``score``: exp(mean token log-probability), not calibrated."""

    t_start_s: Seconds
    t_end_s: Seconds
    text: str
    score: Score
    language: str | None = None


class Speech(WireModel):
    """What is said. ``text`` is empty when nothing is; the whole is None when that is not known."""

    language: Annotated[str | None, Field(description="ISO 639-1 of most of the speech")] = None
    text: str = ""
    segments: tuple[SpeechSegment, ...] = ()


class Judgement(WireModel):
    """A verdict and what it rests on."""

    label: str
    score: Score
    sources: Annotated[
        dict[str, float], Field(default_factory=dict, description="Each contributing signal and its own score")
    ]


class Basis(WireModel):
    """Which of a clip's witnesses a verdict has heard.

    A witness that the clip does not have, or that the job did not ask for, is in neither.
    """

    read: dict[Witness, Fraction] = Field(
        default_factory=dict,
        description="How much of each: seconds of speech, looks that were planned, letters of a text",
    )
    missing: Annotated[
        tuple[Witness, ...], Field(description="Those that the clip has, or may have, and that were not wholly read")
    ] = ()


class BasedOn(WireModel):
    """What each verdict rests on, also one that could not be given."""

    safety: Annotated[Basis, Field(description="While any is missing, safety is unsafe or null")] = Basis()
    sentiment: Annotated[Basis, Field(description="While any is missing, sentiment is not neutral")] = Basis()
    topics: Basis = Basis()
    summary: Basis = Basis()


class TimelineEvent(WireModel):
    """One thing on the clip's time line, for people and players."""

    t_start_s: Seconds
    t_end_s: Seconds
    kind: Literal["shot", "object", "text", "speech"]
    label: str


class StageReport(WireModel):
    """How one stage went. Milliseconds; ``start_ms`` counts from the job's arrival.

    ``elapsed_ms`` is wall time from start to end, of which ``queue_ms`` was spent waiting, for a CPU slot or
    for its next frame.
    """

    status: StageStatus
    start_ms: float = 0.0
    elapsed_ms: float = 0.0
    queue_ms: float = 0.0
    model: str | None = None
    plan: str | None = None
    error: ErrorCode | None = None


class PlanReport(WireModel):
    """What the planner chose for this clip, and why."""

    name: str
    frames: int
    ocr_frames: int
    asr_model: str | None
    predicted_ms: float
    reason: str


class FusedResult(WireModel):
    """Everything that was understood about one clip."""

    schema_version: int = RESULT_SCHEMA_VERSION
    pipeline_version: str
    job_id: str
    video_id: str
    source_uri: str = ""
    status: ResultStatus
    error: ErrorInfo | None = None
    warnings: tuple[WarningInfo, ...] = ()
    media: Media | None = None
    coverage: Coverage = Coverage()
    detections: tuple[Detection, ...] = ()
    objects: tuple[ObjectSummary, ...] = ()
    scene: Annotated[
        tuple[Label, ...],
        Field(
            description="Kinds of place, best first. Score: the classifier's summed softmax, not calibrated; of a "
            "portrait, a group and a meeting the share of frames, of a graphic the share of flat pixels"
        ),
    ] = ()
    shots: tuple[Shot, ...] = ()
    text: tuple[TextSpan, ...] = ()
    speech: Speech | None = None
    sentiment: Annotated[
        Judgement | None,
        Field(
            description="positive, neutral or negative; null rather than neutral while a text is missing. "
            "Score: fused polarity, not calibrated"
        ),
    ] = None
    safety: Annotated[
        Judgement | None,
        Field(
            description="safe or unsafe; null rather than safe while a witness is missing. "
            "Score: of the label given; pictures: softmax of the model"
        ),
    ] = None
    topics: Annotated[
        tuple[Label, ...],
        Field(description="Best first. Score: probability if all topics were equally likely before; not calibrated"),
    ] = ()
    keywords: tuple[str, ...] = ()
    summary: str = ""
    summary_by: Annotated[
        SummaryOrigin | None,
        Field(
            description="A sentence that a language model wrote, one quoted from the clip, or one about the pictures"
        ),
    ] = None
    based_on: BasedOn = BasedOn()
    timeline: tuple[TimelineEvent, ...] = ()
    embedding: Annotated[
        tuple[float, ...] | None, Field(description="1280 numbers, unit length: near-duplicates have cosine > 0.75")
    ] = None
    stages: dict[str, StageReport] = Field(default_factory=dict)
    plan: PlanReport | None = None
    latency_ms: float = 0.0

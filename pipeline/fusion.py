"""Puts what the stages found into one result. Pure: what it knows is handed in, and nothing is changed.

Works on whatever is there: stages that timed out contribute the parts they had.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from llm_engine.understanding import TextInsights
from pipeline import findings
from pipeline.plain_text import plain
from pipeline.planner import ChosenPlan
from pipeline.safety import judge_safety
from pipeline.timeline import timeline
from pipeline.version import PIPELINE_VERSION
from schemas.errors import HalfsecondError, WarningCode
from schemas.job import VideoJob
from schemas.media import Frame, MediaWarning, ProbedMedia
from schemas.result import (
    Coverage,
    ErrorInfo,
    FusedResult,
    PlanReport,
    ResultStatus,
    StageReport,
    StageStatus,
    WarningInfo,
)
from schemas.stage import StageResult
from stages.scene import clip_scene
from stages.sentiment import judge

LOST = frozenset(
    {WarningCode.TRUNCATED, WarningCode.DAMAGED_PACKETS, WarningCode.AUDIO_UNDECODABLE, WarningCode.AUDIO_CUT}
)
"""Warnings after which the answer does not cover the whole clip."""

PERCEIVING = ("detect", "scene", "unsafe", "ocr", "vad", "transcribe", "text")
"""Stages without any of which nothing is known about a clip."""

WITNESSES = ("audio", "vad", "transcribe", "ocr", "unsafe", "text")
"""Stages that speak for or against a clip's safety, and those without which it is not known whether they could."""

MISSING = frozenset({StageStatus.TIMED_OUT, StageStatus.FAILED})


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that one job came to know by its end."""

    job: VideoJob
    stages: Mapping[str, StageResult[Any]]
    frames: tuple[Frame, ...]
    probed: ProbedMedia | None
    chosen: ChosenPlan | None
    refusal: HalfsecondError | None
    packets_damaged: int
    decoding_warnings: tuple[MediaWarning, ...]

    def parts(self, name: str) -> tuple[Any, ...]:
        """Return what the stage found, unit by unit."""
        return self.stages[name].parts


def fuse(evidence: Evidence) -> FusedResult:
    """Return the result, its latency still to be filled in."""
    error = _error(evidence)
    common: dict[str, Any] = {
        "pipeline_version": PIPELINE_VERSION,
        "job_id": evidence.job.job_id,
        "video_id": evidence.job.video_id,
        "source_uri": evidence.job.source.uri,
        "media": evidence.probed.media if evidence.probed else None,
    }
    if error is not None:
        stages = {name: _report(_given_up(result)) for name, result in evidence.stages.items()}
        return FusedResult(**common, status=ResultStatus.REJECTED, error=error, stages=stages)
    stages = {name: _report(result) for name, result in evidence.stages.items()}
    return FusedResult(**common, status=_status(evidence), stages=stages, **_findings(evidence))


def _error(evidence: Evidence) -> ErrorInfo | None:
    """Return why there is no answer at all: the file was refused, or it could not even be opened."""
    refusal = evidence.refusal
    if refusal is not None:
        return ErrorInfo(code=refusal.code, message=plain(refusal.message), retryable=refusal.retryable)
    probe = evidence.stages["probe"]
    if probe.status is StageStatus.FAILED and probe.error is not None:
        return ErrorInfo(code=probe.error, message="the file could not be examined; see the log", retryable=True)
    return None


def _given_up(result: StageResult[Any]) -> StageResult[Any]:
    """Return a stage of a refused job: those that were called off were not late."""
    if result.status is not StageStatus.TIMED_OUT:
        return result
    return replace(result, status=StageStatus.SKIPPED, error=None)


def _findings(evidence: Evidence) -> dict[str, Any]:
    looks = findings.confirmed(evidence.parts("detect"), evidence.parts("confirm"))
    detections, objects = findings.objects(looks)
    captions = findings.captions(evidence.parts("ocr"), evidence.probed)
    shots = findings.shots(evidence.frames, evidence.probed)
    speech = findings.speech(evidence.stages["transcribe"])
    insights = findings.last(evidence.parts("text"), TextInsights())
    return {
        "warnings": tuple(WarningInfo(code=w.code, message=plain(w.message)) for w in _warnings(evidence)),
        "coverage": _coverage(evidence),
        "detections": detections,
        "objects": objects,
        "scene": clip_scene(evidence.parts("scene"), looks),
        "shots": shots,
        "text": captions,
        "speech": speech,
        "sentiment": judge(dict(evidence.parts("sentiment"))),
        "safety": judge_safety(evidence.parts("unsafe"), insights.safety, whole=_all_heard(evidence)),
        "topics": insights.topics,
        "keywords": tuple(plain(word) for word in insights.keywords),
        "summary": plain(insights.summary),
        "summary_by": insights.summary_by,
        "timeline": timeline(shots=shots, objects=objects, text=captions, speech=speech),
        "embedding": findings.embedding(evidence.parts("scene")),
        "plan": _plan(evidence.chosen),
    }


def _all_heard(evidence: Evidence) -> bool:
    return all(evidence.stages[name].status not in MISSING for name in WITNESSES)


def _status(evidence: Evidence) -> ResultStatus:
    if not any(evidence.parts(name) for name in PERCEIVING):
        return ResultStatus.EXPIRED
    whole = all(result.status not in MISSING for result in evidence.stages.values())
    lost = any(warning.code in LOST for warning in _warnings(evidence))
    return ResultStatus.COMPLETE if whole and not lost else ResultStatus.PARTIAL


def _warnings(evidence: Evidence) -> tuple[MediaWarning, ...]:
    """Return each warning once: the sound and the pictures of a damaged file may both speak of it."""
    heard = (warning for clip in evidence.parts("audio") for warning in clip.warnings)
    all_warnings = (*(evidence.probed.warnings if evidence.probed else ()), *evidence.decoding_warnings, *heard)
    return tuple({warning.code: warning for warning in all_warnings}.values())


def _coverage(evidence: Evidence) -> Coverage:
    probed = evidence.probed
    return Coverage(
        frames_analyzed=len(evidence.frames),
        frames_total=probed.media.frame_count if probed else 0,
        frame_times_s=tuple(frame.t_s for frame in evidence.frames),
        packets_damaged=evidence.packets_damaged,
        video_s=probed.media.duration_s if probed and probed.has_video else 0.0,
        audio_s=sum(clip.duration_s for clip in evidence.parts("audio")),
        speech_s=sum(transcript.speech_s for transcript in evidence.parts("transcribe")),
        fraction=_fraction(probed),
    )


def _fraction(probed: ProbedMedia | None) -> float:
    """Return how much of the promised duration is there. A header that simply lied promised nothing."""
    if probed is None:
        return 0.0
    truncated = any(warning.code is WarningCode.TRUNCATED for warning in probed.warnings)
    promised_s = probed.declared_duration_s
    return min(1.0, probed.media.duration_s / promised_s) if truncated and promised_s else 1.0


def _report(result: StageResult[Any]) -> StageReport:
    return StageReport(
        status=result.status,
        start_ms=round(result.start_ms, 2),
        elapsed_ms=round(result.end_ms - result.start_ms, 2),
        queue_ms=round(result.queue_ms, 2),
        model=result.model,
        plan=result.plan,
        error=result.error,
    )


def _plan(chosen: ChosenPlan | None) -> PlanReport | None:
    if chosen is None:
        return None
    plan = chosen.plan
    return PlanReport(
        name=plan.name,
        frames=plan.frames,
        ocr_frames=plan.ocr_frames,
        asr_model=plan.asr,
        predicted_ms=round(chosen.predicted_ms, 1),
        reason=chosen.reason,
    )

"""Puts what the stages found into one result. Pure: what it knows is handed in, and nothing is changed.

Works on whatever is there: stages that timed out contribute the parts they had.
"""

from dataclasses import replace
from typing import Any

from llm_engine.understanding import TextInsights
from pipeline import findings
from pipeline.evidence import Evidence
from pipeline.heard import heard
from pipeline.plain_text import plain
from pipeline.planner import ChosenPlan
from pipeline.safety import judge_safety
from pipeline.timeline import timeline
from pipeline.version import PIPELINE_VERSION
from pipeline.witnesses import based_on
from schemas.errors import WarningCode
from schemas.media import ProbedMedia
from schemas.perception import SpeechSpan
from schemas.result import (
    BasedOn,
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

MISSING = frozenset({StageStatus.TIMED_OUT, StageStatus.FAILED})


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
    basis = based_on(evidence)
    found = _findings(evidence, basis)
    return FusedResult(**common, status=_status(evidence, basis), based_on=basis, stages=stages, **found)


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


def _findings(evidence: Evidence, basis: BasedOn) -> dict[str, Any]:
    looks = findings.confirmed(evidence.parts("detect"), evidence.parts("confirm"))
    detections, objects = findings.objects(looks)
    captions = findings.captions(evidence.parts("ocr"), evidence.probed)
    shots = findings.shots(evidence.frames, evidence.probed)
    speech = findings.speech(evidence.stages["transcribe"])
    insights = findings.last(evidence.parts("text"), TextInsights())
    return {
        "warnings": tuple(WarningInfo(code=w.code, message=plain(w.message)) for w in evidence.warnings),
        "coverage": _coverage(evidence),
        "detections": detections,
        "objects": objects,
        "scene": clip_scene(evidence.parts("scene"), looks),
        "shots": shots,
        "text": captions,
        "speech": speech,
        "sentiment": judge(
            {feeling.origin: feeling.polarity for feeling in evidence.parts("sentiment")},
            whole=not basis.sentiment.missing,
        ),
        "safety": judge_safety(evidence.parts("unsafe"), insights.safety, whole=not basis.safety.missing),
        "topics": insights.topics,
        "keywords": tuple(plain(word) for word in insights.keywords),
        "summary": plain(insights.summary),
        "summary_by": insights.summary_by,
        "timeline": timeline(shots=shots, objects=objects, text=captions, speech=speech),
        "embedding": findings.embedding(evidence.parts("scene")),
        "plan": _plan(evidence.chosen),
    }


def _status(evidence: Evidence, basis: BasedOn) -> ResultStatus:
    if not any(evidence.parts(name) for name in PERCEIVING):
        return ResultStatus.EXPIRED
    whole = all(result.status not in MISSING for result in evidence.stages.values())
    lost = any(warning.code in LOST for warning in evidence.warnings)
    unread = bool(basis.safety.missing)  # captions of a last look, say, that came too late to be understood
    return ResultStatus.PARTIAL if lost or unread or not whole else ResultStatus.COMPLETE


def _coverage(evidence: Evidence) -> Coverage:
    probed = evidence.probed
    found = heard(findings.last(evidence.parts("vad"), ()), evidence.parts("transcribe"))
    return Coverage(
        frames_analyzed=len(evidence.frames),
        frames_total=probed.media.frame_count if probed else 0,
        frame_times_s=tuple(frame.t_s for frame in evidence.frames),
        packets_damaged=evidence.packets_damaged,
        video_s=probed.media.duration_s if probed and probed.has_video else 0.0,
        audio_s=sum(clip.duration_s for clip in evidence.parts("audio")),
        voice_s=round(found.voice_s, 3),
        speech_s=round(found.written_s, 3),
        unwritten=_on_the_time_line(evidence, found.unwritten),
        fraction=_fraction(probed),
    )


def _on_the_time_line(evidence: Evidence, spans: tuple[SpeechSpan, ...]) -> tuple[tuple[float, float], ...]:
    """Return stretches of the sound in seconds of the clip; what lies before its first picture is left out."""
    start_s: float = sum(clip.start_s for clip in evidence.parts("audio"))
    placed = ((max(0.0, start_s + span.start_s), start_s + span.end_s) for span in spans)
    return tuple((round(first_s, 3), round(last_s, 3)) for first_s, last_s in placed if first_s < last_s)


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

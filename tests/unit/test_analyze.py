"""The flow of one job: what is complete, partial, absent, refused, and what a deadline leaves."""

import asyncio
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.analyze import STAGES
from pipeline.plans import LADDER, Plan
from schemas.deadline import Deadline
from schemas.errors import (
    ConfigurationError,
    DeadlineExceeded,
    ErrorCode,
    HalfsecondError,
    MediaError,
    StageError,
    WarningCode,
)
from schemas.media import AudioClip, MediaWarning
from schemas.perception import FrameText
from schemas.result import FusedResult, ResultStatus, Speech, StageStatus
from tests.unit.fakes import SOUND_ONLY, VIDEO, FakeDecoders, analyzer, job, toolbox, transcript

CLIP = Path("/clips/clip.mp4")


async def analyze(tools=None, decoders=None, *, deadline=None, plan="auto", **fields) -> FusedResult:
    async with analyzer(tools or toolbox(), decoders or FakeDecoders()) as subject:
        analysis = await subject.analyze(job(**fields), CLIP, deadline=deadline or Deadline.never(), plan=plan)
    return analysis.result


def planned(name: str) -> Plan:
    return next(plan for plan in LADDER if plan.name == name)


async def test_a_clip_with_everything_is_complete():
    result = await analyze()
    assert result.status is ResultStatus.COMPLETE
    assert {name: report.status for name, report in result.stages.items()} == dict.fromkeys(STAGES, StageStatus.OK)
    assert [o.label for o in result.objects] == ["car"]
    assert result.speech is not None
    assert result.speech.text == "Hello world."
    assert [span.text for span in result.text] == ["SALE TODAY"]
    assert {event.kind for event in result.timeline} == {"shot", "object", "text", "speech"}
    assert result.safety is not None
    assert result.safety.label == "safe"
    assert result.embedding is not None
    assert len(result.embedding) == 1280
    assert result.latency_ms > 0


async def test_the_result_survives_the_wire():
    result = await analyze()
    assert FusedResult.model_validate_json(result.model_dump_json()) == result


async def test_the_plan_and_its_reason_are_told():
    result = await analyze(plan="lean")
    assert result.plan is not None
    assert result.plan.name == "lean"
    assert result.plan.frames == result.coverage.frames_analyzed == planned("lean").frames
    assert result.plan.reason


async def test_an_unknown_plan_is_a_usage_error():
    with pytest.raises(ConfigurationError):
        await analyze(plan="turbo")


async def test_each_stage_looks_at_as_many_frames_as_planned():
    tools = toolbox()
    await analyze(tools, plan="standard")
    plan = planned("standard")
    looks = [len(getattr(tools, name).seen) for name in ("detect", "ocr", "scene", "unsafe")]
    assert looks == [plan.frames, plan.ocr_frames, plan.scene_frames, plan.unsafe_frames]


async def test_a_clip_without_sound_is_complete_and_its_listening_absent():
    result = await analyze(decoders=FakeDecoders(audio_clip=AudioClip(np.zeros(0, np.float32))))
    assert result.status is ResultStatus.COMPLETE
    assert {result.stages[name].status for name in ("audio", "vad", "transcribe")} == {StageStatus.ABSENT}
    assert result.speech == Speech()


async def test_sound_without_a_voice_has_no_transcript():
    tools = toolbox()
    tools.vad.answer = lambda _: ()
    result = await analyze(tools)
    assert result.status is ResultStatus.COMPLETE
    assert result.stages["transcribe"].status is StageStatus.ABSENT
    assert not tools.transcribe.seen


async def test_a_sound_file_is_complete_and_its_looking_absent():
    result = await analyze(decoders=FakeDecoders(probed=SOUND_ONLY))
    assert result.status is ResultStatus.COMPLETE
    assert {result.stages[n].status for n in ("frames", "detect", "confirm", "ocr")} == {StageStatus.ABSENT}
    assert result.speech is not None


async def test_refused_media_is_rejected_with_its_code():
    refusal = MediaError(ErrorCode.NOT_MEDIA, "plain\x1b[2J text")
    result = await analyze(decoders=FakeDecoders(refusal=refusal))
    assert result.status is ResultStatus.REJECTED
    assert result.error is not None
    assert (result.error.code, result.error.message) == (ErrorCode.NOT_MEDIA, "plain[2J text")
    assert result.stages["probe"].error is ErrorCode.NOT_MEDIA
    assert StageStatus.TIMED_OUT not in {report.status for report in result.stages.values()}


async def test_a_late_stage_is_timed_out_and_the_rest_is_there():
    tools = toolbox()
    tools.transcribe.gate.clear()
    result = await analyze(tools, deadline=Deadline.after(0.3), budget_ms=300)
    assert result.status is ResultStatus.PARTIAL
    assert result.stages["transcribe"].status is StageStatus.TIMED_OUT
    assert result.stages["transcribe"].error is ErrorCode.DEADLINE_EXCEEDED
    assert [o.label for o in result.objects] == ["car"]
    assert [span.text for span in result.text] == ["SALE TODAY"]


async def test_frames_seen_before_the_deadline_count_although_the_stage_is_late():
    tools = toolbox()
    quick = tools.detect.answer

    def slow_from_the_second_frame_on(frame):
        if frame.index:
            tools.detect.gate.clear()
            tools.detect.gate.wait(5)
        return quick(frame)

    tools.detect.answer = slow_from_the_second_frame_on
    result = await analyze(tools, deadline=Deadline.after(0.3))
    assert result.stages["detect"].status is StageStatus.TIMED_OUT
    assert {d.t_s for d in result.detections} == {result.coverage.frame_times_s[0]}


async def test_words_that_came_late_cost_only_themselves():
    tools = toolbox()
    tools.transcribe.gate.clear()
    result = await analyze(tools, deadline=Deadline.after(0.3), title="Fresh bread from our bakery")
    assert result.stages["text"].status is StageStatus.TIMED_OUT
    assert result.keywords


async def test_an_expired_deadline_gives_an_expired_result():
    result = await analyze(deadline=Deadline.after(-1))
    assert result.status is ResultStatus.EXPIRED
    assert result.error is None


async def test_a_decoder_that_is_not_to_be_had_in_time_costs_the_answer_and_nothing_else():
    result = await analyze(decoders=FakeDecoders(refusal=DeadlineExceeded()), deadline=Deadline.after(5))
    assert result.status is ResultStatus.EXPIRED
    assert result.stages["probe"].status is StageStatus.TIMED_OUT


async def test_a_broken_decoder_pool_is_an_error_worth_another_try():
    broken = HalfsecondError(ErrorCode.INTERNAL, "no decoder process can start")
    result = await analyze(decoders=FakeDecoders(refusal=broken))
    assert result.status is ResultStatus.REJECTED
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == (ErrorCode.INTERNAL, True)


async def test_the_decoder_is_given_back_before_the_looking_ends():
    tools, decoders = toolbox(), FakeDecoders()
    tools.scene.gate.clear()
    async with analyzer(tools, decoders) as subject:
        running = asyncio.create_task(subject.analyze(job(), CLIP, deadline=Deadline.never()))
        while not tools.scene.seen or decoders.borrowed:
            await asyncio.sleep(0.005)
        assert not running.done()
        tools.scene.gate.set()
        await running


async def test_late_units_teach_the_planner_too():
    tools = toolbox()
    tools.ocr.gate.clear()
    async with analyzer(tools, FakeDecoders()) as subject:
        await subject.analyze(job(), CLIP, deadline=Deadline.after(0.3), plan="glance")
        tools.ocr.answer = lambda frame: FrameText(frame.t_s, ())
        tools.ocr.expires = False
        tools.ocr.gate.set()
        while subject.workshop.slots.stats().free < subject.workshop.slots.count:
            await asyncio.sleep(0.005)
        assert subject.workshop.latencies.rate_ms("ocr") >= 200


async def test_a_loop_that_woke_late_is_given_more_time_to_wake():
    tools = toolbox()
    tools.transcribe.gate.clear()
    async with analyzer(tools, FakeDecoders()) as subject:
        before_ms = subject.workshop.latencies.rate_ms("wake")
        # Something hogs the loop just when the cutoff comes.
        asyncio.get_running_loop().call_later(0.15, time.sleep, 0.2)
        await subject.analyze(job(), CLIP, deadline=Deadline.after(0.25))
        assert subject.workshop.latencies.rate_ms("wake") > before_ms + 50


async def test_half_a_transcript_is_kept_and_flagged():
    tools = toolbox()
    tools.transcribe.answer = lambda _: transcript("Hello", complete=False)
    result = await analyze(tools)
    assert result.status is ResultStatus.PARTIAL
    assert result.stages["transcribe"].status is StageStatus.TIMED_OUT
    assert result.speech is not None
    assert result.speech.text == "Hello"


async def test_one_failing_model_leaves_the_others_alone():
    def broken(_):
        raise StageError(ErrorCode.MODEL_FAILED, "nan")

    tools = toolbox()
    tools.ocr.answer = broken
    result = await analyze(tools)
    assert result.status is ResultStatus.PARTIAL
    assert result.stages["ocr"].error is ErrorCode.MODEL_FAILED
    assert result.stages["detect"].status is StageStatus.OK


async def test_what_was_not_asked_for_is_skipped_and_not_missed():
    tools = toolbox()
    result = await analyze(tools, want=frozenset(STAGES) - {"text", "transcribe"})
    assert result.status is ResultStatus.COMPLETE
    assert {result.stages[n].status for n in ("text", "transcribe", "vad")} == {StageStatus.SKIPPED}
    assert not tools.transcribe.seen
    assert result.topics == ()


@pytest.mark.parametrize("code", [WarningCode.TRUNCATED, WarningCode.DAMAGED_PACKETS])
async def test_a_clip_that_is_not_whole_is_partial(code):
    probed = VIDEO.__class__(
        media=VIDEO.media,
        frame_times_s=VIDEO.frame_times_s,
        keyframe_times_s=VIDEO.keyframe_times_s,
        audio_s=4.0,
        declared_duration_s=8.0,
        warnings=(MediaWarning(code, "half of it"),),
    )
    result = await analyze(decoders=FakeDecoders(probed=probed))
    assert result.status is ResultStatus.PARTIAL
    assert [w.code for w in result.warnings] == [code]
    assert result.coverage.fraction == (0.5 if code is WarningCode.TRUNCATED else 1.0)


async def test_hostile_words_are_made_plain():
    tools = toolbox()
    tools.transcribe.answer = lambda _: transcript("hi\x1b]0;owned\x07 \u202e<script>")
    result = await analyze(tools)
    assert result.speech is not None
    assert result.speech.text == "hi]0;owned <script>"
    assert "\x1b" not in result.model_dump_json()


async def test_no_stage_starts_before_the_job_or_ends_after_it():
    result = await analyze()
    for report in result.stages.values():
        assert 0 <= report.start_ms <= report.start_ms + report.elapsed_ms <= result.latency_ms + 0.1
        assert 0 <= report.queue_ms <= report.elapsed_ms + 0.1

"""The flow of one job: what is complete, partial, absent, refused, and what a deadline leaves."""

import asyncio
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.analyze import MOST_WAKE_MS, STAGES
from pipeline.plans import LADDER, Plan, spread
from pipeline.toolbox import Toolbox
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
from schemas.media import AudioClip, Frame, MediaWarning
from schemas.perception import FrameText
from schemas.result import FusedResult, ResultStatus, Speech, StageStatus
from tests.unit.fakes import SOUND_ONLY, VIDEO, FakeDecoders, FakeStage, analyzer, job, toolbox, transcript
from tests.unit.virtual_threads import sleep
from tests.unit.virtual_time import VirtualLoop, in_virtual_time, within

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
    assert result.plan.reason == "asked for by name"


async def test_an_unknown_plan_is_a_usage_error():
    with pytest.raises(ConfigurationError):
        await analyze(plan="turbo")


async def test_each_stage_looks_at_as_many_frames_as_planned():
    tools = toolbox()
    await analyze(tools, plan="standard")
    plan = planned("standard")
    looks = [len(getattr(tools, name).seen) for name in ("detect", "ocr", "scene", "unsafe")]
    assert looks == [plan.frames, plan.ocr_frames, plan.scene_frames, plan.unsafe_frames]


@pytest.mark.parametrize(("name", "hasty"), [("best", False), ("standard", False), ("lean", True), ("glance", True)])
async def test_thorough_plans_listen_thoroughly(name: str, hasty: bool):
    tools = toolbox()
    await analyze(tools, plan=name)
    assert [speech.hasty for speech in tools.transcribe.seen] == [hasty]


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


@in_virtual_time
async def test_a_late_stage_is_timed_out_and_the_rest_is_there():
    tools = toolbox()
    tools.transcribe.gate.clear()
    result = await analyze(tools, deadline=within(0.3), budget_ms=300)
    assert result.status is ResultStatus.PARTIAL
    assert result.stages["transcribe"].status is StageStatus.TIMED_OUT
    assert result.stages["transcribe"].error is ErrorCode.DEADLINE_EXCEEDED
    assert [o.label for o in result.objects] == ["car"]
    assert [span.text for span in result.text] == ["SALE TODAY"]


@pytest.mark.timing
async def test_on_a_real_clock_too_a_unit_that_hangs_is_not_waited_for():
    tools, deadline = toolbox(), Deadline.after(1)
    tools.transcribe.gate.clear()
    result = await analyze(tools, deadline=deadline)
    assert result.status is ResultStatus.PARTIAL
    assert result.stages["transcribe"].status is StageStatus.TIMED_OUT
    assert 500 < result.latency_ms < 4000, "the unit hangs for 5 s"
    assert [o.label for o in result.objects] == ["car"]


class SlowLooks(FakeStage):
    """Looks at some frames until its time is up, as a real one does: it gives up by itself."""

    def __init__(self, quick: FakeStage, *, slow: Container[int]) -> None:
        super().__init__(quick.name, quick.answer)
        self.slow = slow

    def run(self, unit: Frame, *, deadline: Deadline) -> Any:
        if unit.index in self.slow:
            sleep(deadline.remaining())
            raise DeadlineExceeded
        return super().run(unit, deadline=deadline)


def with_slow_looks(name: str, *, slow: Container[int]) -> Toolbox:
    tools = toolbox()
    return replace(tools, **{name: SlowLooks(getattr(tools, name), slow=slow)})


@in_virtual_time
async def test_when_time_gets_short_one_look_of_each_kind_makes_the_answer_whole():
    tools = with_slow_looks("detect", slow=range(1, 8))
    result = await analyze(tools, deadline=within(0.6), plan="best")
    assert result.status is ResultStatus.COMPLETE
    assert {report.status for report in result.stages.values()} == {StageStatus.OK}
    assert result.stages["detect"].plan == "1 of 8 frames"
    assert {d.t_s for d in result.detections} == {result.coverage.frame_times_s[0]}


@in_virtual_time
async def test_a_plan_that_was_cut_down_tells_what_was_really_done():
    tools = with_slow_looks("detect", slow=range(1, 8))
    result = await analyze(tools, deadline=within(0.6), plan="best")
    assert result.plan is not None
    assert (result.plan.name, result.plan.frames) == ("glance", 1)
    assert result.plan.ocr_frames == len(tools.ocr.seen) >= 1
    assert "'best', cut down when the time got short" in result.plan.reason


@in_virtual_time
async def test_a_plan_of_which_little_is_missing_is_called_after_the_next_one_below():
    tools = with_slow_looks("detect", slow={3})
    result = await analyze(tools, deadline=within(0.6), plan="best")
    assert result.status is ResultStatus.COMPLETE
    assert result.stages["detect"].plan == "7 of 8 frames"
    assert result.plan is not None
    assert (result.plan.name, result.plan.frames, result.plan.ocr_frames) == ("thorough", 7, 8)


@pytest.mark.parametrize("name", ["detect", "ocr", "scene", "unsafe"])
@in_virtual_time
async def test_a_first_look_that_is_late_makes_the_answer_partial_and_the_others_count(name):
    tools = with_slow_looks(name, slow={looks_of(name)[0]})
    result = await analyze(tools, deadline=within(0.4), plan="best")
    assert result.status is ResultStatus.PARTIAL
    assert result.stages[name].status is StageStatus.TIMED_OUT
    assert sorted(frame.index for frame in getattr(tools, name).seen) == looks_of(name)[1:]
    assert result.objects
    assert result.text
    assert result.plan is not None
    assert result.plan.name == "best", "nothing was left out to make it whole"


def looks_of(name: str) -> list[int]:
    plan = planned("best")
    return sorted(spread(plan.shares[name], of=plan.frames))


@in_virtual_time
async def test_speech_that_cannot_be_begun_in_time_is_given_up_at_once():
    tools = toolbox()
    async with analyzer(tools, FakeDecoders()) as subject:
        subject.workshop.latencies.observe("transcribe:en", ms=1e6, work=1)
        analysis = subject.analyze(job(), CLIP, deadline=within(600), plan="lean")
        result = (await asyncio.wait_for(analysis, 30)).result
    assert result.status is ResultStatus.PARTIAL
    assert result.stages["transcribe"].status is StageStatus.TIMED_OUT
    assert result.stages["transcribe"].error is ErrorCode.DEADLINE_EXCEEDED
    assert not tools.transcribe.seen
    rest = {report.status for name, report in result.stages.items() if name != "transcribe"}
    assert rest == {StageStatus.OK}


async def test_without_a_deadline_speech_is_begun_however_long_it_takes():
    tools = toolbox()
    async with analyzer(tools, FakeDecoders()) as subject:
        subject.workshop.latencies.observe("transcribe:en", ms=1e6, work=1)
        analysis = await subject.analyze(job(), CLIP, deadline=Deadline.never())
    assert analysis.result.status is ResultStatus.COMPLETE


@in_virtual_time
async def test_a_clip_without_a_deadline_waits_while_one_with_a_deadline_is_there():
    hurried_tools = toolbox()
    hurried_tools.transcribe.gate.clear()
    hurried_tools.transcribe.expires = False
    async with analyzer(hurried_tools, FakeDecoders()) as subject:
        hurried = asyncio.create_task(subject.analyze(job(), CLIP, deadline=within(60)))
        while not hurried_tools.transcribe.seen:
            await asyncio.sleep(0.005)
        backfill = asyncio.create_task(subject.analyze(job(), CLIP, deadline=Deadline.never()))
        await asyncio.sleep(0.05)
        slots = subject.workshop.slots.stats()
        assert slots.free == subject.workshop.slots.count - 1
        assert slots.waiting, "beside free slots"
        hurried_tools.transcribe.gate.set()
        results = [(await task).result for task in (hurried, backfill)]
    assert [result.status for result in results] == [ResultStatus.COMPLETE] * 2


@pytest.mark.parametrize(("deadline", "jobs"), [(Deadline.after(3600), 1), (Deadline.never(), 0)], ids=["some", "none"])
async def test_only_a_clip_with_a_deadline_is_a_load_and_only_until_it_ends(deadline, jobs):
    tools = toolbox()
    tools.transcribe.gate.clear()
    async with analyzer(tools, FakeDecoders()) as subject:
        running = asyncio.create_task(subject.analyze(job(), CLIP, deadline=deadline))
        while not tools.transcribe.seen:
            await asyncio.sleep(0.005)
        assert subject.workshop.load.jobs == jobs
        tools.transcribe.gate.set()
        await running
        assert subject.workshop.load.jobs == 0


@in_virtual_time
async def test_words_that_came_late_cost_only_themselves():
    tools = toolbox()
    tools.transcribe.gate.clear()
    result = await analyze(tools, deadline=within(0.3), title="Fresh bread from our bakery")
    assert result.stages["text"].status is StageStatus.TIMED_OUT
    assert result.keywords


@in_virtual_time
async def test_an_expired_deadline_gives_an_expired_result():
    result = await analyze(deadline=within(-1))
    assert result.status is ResultStatus.EXPIRED
    assert result.error is None


@in_virtual_time
async def test_a_decoder_that_is_not_to_be_had_in_time_costs_the_answer_and_nothing_else():
    result = await analyze(decoders=FakeDecoders(refusal=DeadlineExceeded()), deadline=within(5))
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


@in_virtual_time
async def test_late_units_teach_the_planner_too():
    tools = toolbox()
    tools.ocr.gate.clear()
    async with analyzer(tools, FakeDecoders()) as subject:
        await subject.analyze(job(), CLIP, deadline=within(0.3), plan="glance")
        tools.ocr.answer = lambda frame: FrameText(frame.t_s, ())
        tools.ocr.expires = False
        tools.ocr.gate.set()
        while subject.workshop.slots.stats().free < subject.workshop.slots.count:
            await asyncio.sleep(0.005)
        assert subject.workshop.latencies.rate_ms("ocr") >= 200


@in_virtual_time
async def test_a_loop_that_woke_late_is_given_more_time_to_wake():
    tools = toolbox()
    tools.transcribe.gate.clear()
    async with analyzer(tools, FakeDecoders()) as subject:
        before_ms = subject.workshop.latencies.rate_ms("wake")
        # Something hogs the loop just when the cutoff comes.
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.call_later(0.15, loop.hog, 0.2)
        await subject.analyze(job(), CLIP, deadline=within(0.25))
        assert before_ms < subject.workshop.latencies.rate_ms("wake") <= MOST_WAKE_MS


@in_virtual_time
async def test_a_cutoff_that_had_passed_before_the_job_began_says_nothing_about_the_loop():
    async with analyzer(toolbox(), FakeDecoders()) as subject:
        before_ms = subject.workshop.latencies.rate_ms("wake")
        for _ in range(20):
            await subject.analyze(job(), CLIP, deadline=within(-3))
        assert subject.workshop.latencies.rate_ms("wake") == before_ms


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


@in_virtual_time
async def test_what_was_not_asked_for_is_not_missing_from_a_plan_that_was_cut_down():
    tools = with_slow_looks("detect", slow={3})
    result = await analyze(tools, deadline=within(0.6), plan="best", want=("detect", "scene"))
    assert result.plan is not None
    assert (result.plan.name, result.plan.frames, result.plan.ocr_frames) == ("thorough", 7, 8)


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

"""What the messages say, and that anyone's tools can follow them."""

from datetime import datetime
from typing import Any

import pytest

from pipeline.bus.base import Outgoing, Partition
from pipeline.bus.headers import EventType, header, parse_traceparent
from pipeline.ingest.message import BadMessage, IngestedJob, Poison, parse_job
from pipeline.service.letters import (
    Timing,
    bad_video_letter,
    dead_letter,
    handover_letter,
    result_letter,
    sla_letter,
    unanswered,
)
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, MediaError, Overloaded
from schemas.events import DeadLetter, LatenessCause, SlaEvent, StageMiss
from schemas.job import Lane, VideoJob
from schemas.result import ErrorInfo, FusedResult, PlanReport, ResultStatus, StageReport, StageStatus
from tests.unit.service_parts import SENDER, TOPICS, TRACE, WALL_S, job, record, result

CLIP = job("j", title="a title", budget_ms=500)
IN_TIME = Timing(waited_s=0.01, took_s=0.3)


def ingested(asked: VideoJob = CLIP, *, age_s: float = 0.0, skew_s: float = 0.0) -> IngestedJob:
    return IngestedJob(asked, Deadline.never(), TRACE, age_s=age_s, skew_s=skew_s)


def all_letters() -> dict[str, Outgoing]:
    answer = result(CLIP)
    return {
        EventType.RESULT: result_letter(SENDER, ingested(), answer),
        EventType.SLA: sla_letter(SENDER, ingested(), answer, IN_TIME),
        EventType.JOB: handover_letter(SENDER, ingested()),
        EventType.DEAD_LETTER: dead_letter(SENDER, record(b"x"), BadMessage(Poison.NOT_JSON, "no JSON")),
    }


@pytest.mark.parametrize("event_type", [EventType.RESULT, EventType.SLA, EventType.JOB, EventType.DEAD_LETTER])
def test_every_message_is_a_cloud_event(event_type: str) -> None:
    headers = all_letters()[event_type].headers
    assert [name for name, _ in headers] == [
        "ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "content-type", "traceparent",
    ]  # fmt: skip
    assert header(headers, "ce_specversion") == "1.0"
    assert header(headers, "ce_type") == event_type
    assert header(headers, "ce_source") == "/halfsecond/workers/w1"
    assert header(headers, "content-type") == "application/json"
    assert datetime.fromisoformat(header(headers, "ce_time") or "").timestamp() == WALL_S


def test_no_two_events_have_the_same_id() -> None:
    ids = [header(letter.headers, "ce_id") for _ in range(2) for letter in all_letters().values()]
    assert None not in ids
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("event_type", [EventType.RESULT, EventType.SLA, EventType.JOB, EventType.DEAD_LETTER])
def test_every_message_is_a_span_of_its_own_below_the_senders(event_type: str) -> None:
    span = parse_traceparent(header(all_letters()[event_type].headers, "traceparent") or "")
    assert span is not None
    assert span.trace_id == TRACE.trace_id
    assert span.span_id != TRACE.span_id


def test_messages_go_where_they_belong_under_a_key_that_keeps_a_video_together() -> None:
    where = {kind: (letter.topic, letter.key) for kind, letter in all_letters().items()}
    assert where == {
        EventType.RESULT: (TOPICS.results, b"j-video"),
        EventType.SLA: (TOPICS.sla, b"j-video"),
        EventType.JOB: (TOPICS.backfill, b"j-video"),
        EventType.DEAD_LETTER: (TOPICS.dead_letters, b"video.jobs.realtime-0-0"),
    }


def test_a_result_comes_back_as_it_was() -> None:
    answer = result(CLIP, summary="a man \u2028 talks", latency_ms=3.5)
    assert FusedResult.model_validate_json(result_letter(SENDER, ingested(), answer).value or b"") == answer


def test_a_job_that_is_handed_over_is_the_same_without_its_deadline_and_can_be_read_again() -> None:
    letter = handover_letter(SENDER, ingested())
    again = parse_job(letter.value, letter.headers)
    assert again == CLIP.model_copy(update={"lane": Lane.BACKFILL, "budget_ms": None})


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (Overloaded("full", retry_after_s=1), True),
        (DeadlineExceeded(), True),
        (MediaError(ErrorCode.TOO_LONG, "x"), False),
    ],
)
def test_a_job_without_an_answer_says_why_and_whether_to_come_again(error: Any, retryable: bool) -> None:
    answer = unanswered(CLIP, ResultStatus.REJECTED, error)
    assert (answer.job_id, answer.video_id, answer.source_uri) == ("j", "j-video", CLIP.source.uri)
    assert answer.error == ErrorInfo(code=error.code, message=error.message, retryable=retryable)


def test_words_from_outside_are_made_plain_before_they_are_passed_on() -> None:
    hostile = MediaError(ErrorCode.NOT_MEDIA, "\x1b[31mred\u202e")
    answer = unanswered(CLIP, ResultStatus.REJECTED, hostile)
    assert answer.error is not None
    assert answer.error.message == "[31mred"
    letter = DeadLetter.model_validate_json(
        dead_letter(SENDER, record(b"x"), BadMessage(Poison.NOT_JSON, "\x00bad\x07")).value or b""
    )
    assert letter.reason == "bad"


def test_a_dead_letter_tells_where_the_message_lay_and_what_was_wrong() -> None:
    poison = record(b"\xff", at=Partition(TOPICS.backfill, 3), offset=41)
    letter = DeadLetter.model_validate_json(
        dead_letter(SENDER, poison, BadMessage(Poison.NOT_UTF8, "byte 0 is no UTF-8")).value or b""
    )
    assert (letter.original.topic, letter.original.partition, letter.original.offset) == (TOPICS.backfill, 3, 41)
    assert letter.original.message_base64 == "/w=="
    assert (letter.error_class, letter.code, letter.stage) == ("NotUtf8", ErrorCode.BAD_MESSAGE, "parse")
    assert (letter.attempt, letter.retryable, letter.job_id) == (1, False, None)
    assert letter.first_failed_at.timestamp() == WALL_S


@pytest.mark.parametrize(
    ("code", "stage"),
    [
        (ErrorCode.FETCH_REFUSED, "fetch"),
        (ErrorCode.CHECKSUM_MISMATCH, "fetch"),
        (ErrorCode.NOT_MEDIA, "probe"),
        (ErrorCode.ENCRYPTED, "probe"),
    ],
)
def test_a_bad_video_names_its_job_and_where_it_failed(code: ErrorCode, stage: str) -> None:
    error = ErrorInfo(code=code, message="bad")
    letter = DeadLetter.model_validate_json(bad_video_letter(SENDER, record(b"{}"), CLIP, error).value or b"")
    assert (letter.job_id, letter.video_id) == ("j", "j-video")
    assert (letter.error_class, letter.code, letter.stage) == ("BadVideo", code, stage)


def test_a_reason_of_any_length_fits_into_a_dead_letter() -> None:
    long = "x" * 20_000
    for letter in (
        bad_video_letter(SENDER, record(b"{}"), CLIP, ErrorInfo(code=ErrorCode.FETCH_REFUSED, message=long)),
        dead_letter(SENDER, record(b"x"), BadMessage(Poison.NOT_JSON, long)),
    ):
        assert len(DeadLetter.model_validate_json(letter.value or b"").reason) == 2000


def sla(answer: FusedResult, timing: Timing, of: IngestedJob | None = None) -> SlaEvent:
    return SlaEvent.model_validate_json(sla_letter(SENDER, of or ingested(), answer, timing).value or b"")


def test_a_job_in_time_has_no_cause() -> None:
    plan = PlanReport(name="lean", frames=3, ocr_frames=1, asr_model=None, predicted_ms=200, reason="fits")
    event = sla(result(CLIP, plan=plan), IN_TIME, ingested(skew_s=-0.25))
    assert (event.job_id, event.video_id, event.lane, event.status) == ("j", "j-video", "realtime", "complete")
    assert (event.budget_ms, event.latency_ms, event.waited_ms) == (500, pytest.approx(300), pytest.approx(10))
    assert (event.in_time, event.cause, event.misses) == (True, None, ())
    assert (event.plan, event.clock_skew_ms, event.worker_id) == ("lean", -250, "w1")
    assert event.at.timestamp() == WALL_S


@pytest.mark.parametrize(("took_s", "in_time"), [(0.499, True), (0.5, True), (0.501, False)])
def test_in_time_means_within_the_budget(took_s: float, in_time: bool) -> None:
    assert sla(result(CLIP), Timing(waited_s=0, took_s=took_s)).in_time is in_time


def test_a_job_without_a_budget_is_in_time_whenever_it_is_ready() -> None:
    asked = job(budget_ms=None, lane=Lane.BACKFILL)
    event = sla(result(asked), Timing(waited_s=30, took_s=60), ingested(asked))
    assert (event.budget_ms, event.in_time, event.cause) == (None, True, None)


def test_stages_that_were_cut_off_or_failed_are_named_and_others_are_not() -> None:
    stages = {
        "ocr": StageReport(status=StageStatus.TIMED_OUT, queue_ms=80, elapsed_ms=120),
        "scene": StageReport(status=StageStatus.FAILED, error=ErrorCode.MODEL_FAILED),
        "detect": StageReport(status=StageStatus.OK),
        "transcribe": StageReport(status=StageStatus.ABSENT),
        "unsafe": StageReport(status=StageStatus.SKIPPED),
    }
    event = sla(result(CLIP, ResultStatus.PARTIAL, stages=stages), IN_TIME)
    assert event.misses == (
        StageMiss(stage="ocr", status=StageStatus.TIMED_OUT, queue_ms=80, elapsed_ms=120),
        StageMiss(stage="scene", status=StageStatus.FAILED, error=ErrorCode.MODEL_FAILED),
    )
    assert event.cause is LatenessCause.ANALYSIS


STAGES = {"detect": StageReport(status=StageStatus.OK)}


@pytest.mark.parametrize(
    ("timing", "age_s", "more", "cause"),
    [
        (Timing(waited_s=0.35, took_s=0.6), 0.3, {"stages": STAGES}, LatenessCause.ON_ARRIVAL),
        (Timing(waited_s=0.35, took_s=0.6), 0.05, {"stages": STAGES}, LatenessCause.WAITING),
        (Timing(waited_s=0.05, took_s=0.6), 0.05, {}, LatenessCause.FETCH),
        (Timing(waited_s=0.05, took_s=0.6), 0.05, {"stages": STAGES}, LatenessCause.ANALYSIS),
    ],
)
def test_what_was_late_is_told_by_where_most_of_the_time_went(
    timing: Timing, age_s: float, more: dict[str, Any], cause: LatenessCause
) -> None:
    assert sla(result(CLIP, **more), timing, ingested(age_s=age_s)).cause is cause


def test_a_job_that_expired_has_a_cause_although_it_was_told_in_time() -> None:
    never_begun = Timing(waited_s=0.48, took_s=0.48)
    expired = unanswered(CLIP, ResultStatus.EXPIRED, DeadlineExceeded())
    assert sla(expired, never_begun).in_time
    assert sla(expired, never_begun).cause is LatenessCause.WAITING
    assert sla(expired, never_begun, ingested(age_s=0.24)).cause is LatenessCause.WAITING  # half before, half after
    assert sla(expired, never_begun, ingested(age_s=0.4)).cause is LatenessCause.ON_ARRIVAL


def test_a_clip_that_came_too_slowly_is_the_stores_fault_not_the_queues() -> None:
    expired = unanswered(CLIP, ResultStatus.EXPIRED, MediaError(ErrorCode.FETCH_TIMED_OUT, "slow", retryable=True))
    assert sla(expired, Timing(waited_s=0.02, took_s=0.45)).cause is LatenessCause.FETCH


def test_times_are_never_negative() -> None:
    event = sla(result(CLIP), Timing(waited_s=-0.001, took_s=-0.001))
    assert (event.latency_ms, event.waited_ms) == (0, 0)

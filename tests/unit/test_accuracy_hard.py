"""The accuracy report: how answers to hostile and odd files are judged."""

from typing import Any

import pytest

from benchmarks.hard import judge
from schemas.errors import ErrorCode, WarningCode
from schemas.result import (
    Coverage,
    ErrorInfo,
    FusedResult,
    Media,
    ResultStatus,
    Speech,
    StageReport,
    StageStatus,
    WarningInfo,
)
from tests.hard_cases import HardCase

MEDIA = Media(duration_s=4.0, width=640, height=360, fps=25.0, frame_count=100, has_audio=True)


def case(name: str = "00_base.mp4", **expect: object) -> HardCase:
    return HardCase(name, b"", "", expect)


def answer(status: ResultStatus = ResultStatus.COMPLETE, media: Media | None = MEDIA, **fields: Any) -> FusedResult:
    return FusedResult(pipeline_version="1", job_id="j", video_id="v", status=status, media=media, **fields)


def refusal(code: ErrorCode, *, retryable: bool = False) -> FusedResult:
    error = ErrorInfo(code=code, message="", retryable=retryable)
    return answer(ResultStatus.REJECTED, None, error=error)


def test_a_refusal_needs_the_right_code() -> None:
    expected = case(result="error", error="EMPTY_FILE")
    assert judge(expected, refusal(ErrorCode.EMPTY_FILE)) == []
    assert judge(expected, refusal(ErrorCode.NOT_MEDIA)) != []
    assert judge(expected, answer()) != []


def test_refusing_what_should_be_answered_is_wrong() -> None:
    assert judge(case(result="ok"), refusal(ErrorCode.DECODE_FAILED)) != []


def test_a_lasting_fault_must_not_be_called_worth_another_try() -> None:
    assert judge(case(result="error", error="NOT_MEDIA"), refusal(ErrorCode.NOT_MEDIA, retryable=True)) != []


def test_refusals_that_the_manifest_calls_acceptable_are_right() -> None:
    liar = case("47_header_claims_100h.mp4", result="ok", frames=100)
    assert judge(liar, refusal(ErrorCode.TOO_LONG)) == []
    assert judge(liar, answer()) == []


@pytest.mark.parametrize(
    "expected",
    [{"frames": 99}, {"width": 360}, {"duration": 4.5}, {"fps": 30}, {"has_audio": False}, {"frames_min": 101}],
)
def test_every_fact_of_the_file_is_compared(expected: dict[str, object]) -> None:
    assert judge(case(result="ok", frames=100, duration=4.0), answer()) == []
    assert len(judge(case(result="ok", **expected), answer())) == 1


def test_a_damaged_file_must_be_answered_in_part_and_with_a_warning() -> None:
    expected = case(result="ok_partial")
    warning = WarningInfo(code=WarningCode.TRUNCATED, message="")
    assert judge(expected, answer(ResultStatus.PARTIAL, warnings=(warning,))) == []
    assert judge(expected, answer(ResultStatus.PARTIAL)) != []
    assert judge(expected, answer(warnings=(warning,))) != []


def test_words_must_be_those_that_are_said() -> None:
    spoken = answer(speech=Speech(language="en", text="I like eating cheese on"))
    assert judge(case(result="ok", transcript=""), spoken) != []
    assert judge(case(result="ok", transcript=""), answer()) == []
    assert judge(case(result="ok", transcript="I like eating cheese on toast (cut at 2.0 s)"), spoken) == []
    assert judge(case(result="ok", transcript="I like eating cheese on toast"), spoken) != []


def test_sound_alone_must_be_listened_to() -> None:
    expected = case("14_audio_only.mp3", result="error", error="NO_VIDEO_STREAM")
    stages = {name: StageReport(status=StageStatus.ABSENT) for name in ("detect", "ocr")}
    listened = stages | {"vad": StageReport(status=StageStatus.OK)}
    assert judge(expected, answer(stages=listened)) == []
    assert judge(expected, answer(stages=stages | {"vad": StageReport(status=StageStatus.SKIPPED)})) != []
    assert judge(expected, refusal(ErrorCode.NO_VIDEO_STREAM)) != []


def test_the_length_of_the_sound_is_compared() -> None:
    short = answer(coverage=Coverage(audio_s=1.02))
    assert judge(case(result="ok", audio_seconds=1.0), short) == []
    assert judge(case(result="ok", audio_seconds=5.3), short) != []


def test_a_file_of_this_machine_must_show_up_nowhere() -> None:
    leak = answer(speech=Speech(text="root:x:0:0:root"))
    assert judge(case(result="ok"), leak) != []

"""The board keeps what is ready and says what is missing."""

import asyncio

import pytest

from pipeline.board import Board
from schemas.errors import DeadlineExceeded, ErrorCode, MediaError, StageError
from schemas.result import StageStatus


class ManualClock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def board(clock) -> Board:
    return Board(job_id="j", began_s=0.0, clock=clock)


def test_a_stage_that_ends_is_ok_with_its_times(board, clock):
    clock.now_s = 0.010
    with board.running("detect", model="ssd") as record:
        clock.now_s = 0.050
        record.busy_ms = 25
        record.parts.append("car")
    result = board.results(("detect",))["detect"]
    assert result.status is StageStatus.OK
    assert (result.start_ms, result.end_ms, result.queue_ms) == pytest.approx((10, 50, 15))
    assert result.parts == ("car",)


def test_a_stage_still_running_counts_as_timed_out_and_keeps_its_parts(board, clock):
    with board.running("detect") as record:
        record.parts.append("car")
        clock.now_s = 0.5
        result = board.results(("detect",))["detect"]
    assert result.status is StageStatus.TIMED_OUT
    assert result.error is ErrorCode.DEADLINE_EXCEEDED
    assert result.parts == ("car",)
    assert result.end_ms == 500


def test_a_stage_never_begun_counts_as_timed_out(board):
    assert board.results(("text",))["text"].status is StageStatus.TIMED_OUT


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (DeadlineExceeded(), StageStatus.TIMED_OUT, ErrorCode.DEADLINE_EXCEEDED),
        (StageError(ErrorCode.MODEL_FAILED, "nan"), StageStatus.FAILED, ErrorCode.MODEL_FAILED),
        (ZeroDivisionError(), StageStatus.FAILED, ErrorCode.INTERNAL),
    ],
)
def test_a_failure_stays_in_the_record(board, raised, status, code):
    with board.running("ocr"):
        raise raised
    result = board.results(("ocr",))["ocr"]
    assert (result.status, result.error) == (status, code)


def test_refused_media_goes_on_to_the_caller(board):
    with pytest.raises(MediaError), board.running("probe"):
        raise MediaError(ErrorCode.NOT_MEDIA, "text")
    assert board.results(("probe",))["probe"].error is ErrorCode.NOT_MEDIA


def test_cancellation_is_never_swallowed(board):
    with pytest.raises(asyncio.CancelledError), board.running("ocr"):
        raise asyncio.CancelledError
    assert board.results(("ocr",))["ocr"].status is StageStatus.TIMED_OUT


def test_one_failed_unit_does_not_undo_the_others(board):
    with board.running("ocr") as record:
        with board.guard(record):
            record.parts.append("first")
        with board.guard(record):
            raise StageError(ErrorCode.MODEL_FAILED, "second")
    result = board.results(("ocr",))["ocr"]
    assert result.status is StageStatus.FAILED
    assert result.parts == ("first",)


def test_absent_does_not_overwrite_what_ran(board):
    with board.running("audio"):
        pass
    board.conclude("audio", StageStatus.ABSENT)
    board.conclude("vad", StageStatus.ABSENT)
    results = board.results(("audio", "vad"))
    assert results["audio"].status is StageStatus.OK
    assert results["vad"].status is StageStatus.ABSENT

"""Jobs go out as the contract says, and answers are read whatever lies beside them."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.bus.base import Outgoing
from pipeline.bus.errors import BusError
from pipeline.bus.headers import EventType, header
from pipeline.bus.memory import MemoryBus
from pipeline.bus.topics import Topics
from pipeline.client import Answers, job_of, source_of, submit, video_id_of
from pipeline.ingest.message import original_record, parse_job
from pipeline.submit_command import answer_line
from schemas.errors import ErrorCode, MediaError
from schemas.events import DeadLetter
from schemas.job import Lane
from schemas.result import ErrorInfo, FusedResult, ResultStatus

TOPICS = Topics("test.")


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus({topic.name: 2 for topic in TOPICS.all()})


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "my clip.mp4"
    path.write_bytes(b"not really a clip")
    return path


def result(job_id: str = "j", **more: object) -> FusedResult:
    fields = {"pipeline_version": "1", "job_id": job_id, "video_id": "v", "status": ResultStatus.COMPLETE, **more}
    return FusedResult.model_validate(fields)


def put(bus: MemoryBus, answer: FusedResult | DeadLetter) -> None:
    topic = TOPICS.results if isinstance(answer, FusedResult) else TOPICS.dead_letters
    bus.append([Outgoing(topic, key=b"v", value=answer.model_dump_json().encode())])


def test_a_path_becomes_a_uri_with_size_and_hash(clip: Path) -> None:
    source = source_of(str(clip))
    assert source.uri == clip.as_uri()
    assert source.size_bytes == 17
    assert source.sha256 == hashlib.sha256(b"not really a clip").hexdigest()
    assert source_of(clip.as_uri()) == source


@pytest.mark.parametrize("uri", ["http://example.org/a.mp4", "https://example.org/a.mp4?x=1", "s3://bucket/key"])
def test_addresses_go_out_as_they_are(uri: str) -> None:
    assert source_of(uri).model_dump(exclude_none=True) == {"uri": uri}


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="nowhere") as raised:
        source_of(str(tmp_path / "nowhere.mp4"))
    assert raised.value.code is ErrorCode.NOT_READABLE
    with pytest.raises(MediaError):
        source_of(str(tmp_path))


def test_different_clips_of_one_name_have_different_ids(tmp_path: Path) -> None:
    sources = []
    for number in range(2):
        path = tmp_path / str(number) / "clip.mp4"
        path.parent.mkdir()
        path.write_bytes(bytes([number]))
        sources.append(source_of(str(path)))
    sources += [source_of("http://a.example/clip.mp4"), source_of("http://b.example/clip.mp4")]
    ids = [video_id_of(source) for source in sources]
    assert len(set(ids)) == 4
    assert all(one.startswith("clip.mp4-") for one in ids)
    assert ids == [video_id_of(source) for source in sources]


def test_realtime_has_half_a_second_and_backfill_all_the_time_unless_told(clip: Path) -> None:
    assert job_of(str(clip)).budget_ms == 500
    assert job_of(str(clip), lane=Lane.BACKFILL).budget_ms is None
    assert job_of(str(clip), lane=Lane.BACKFILL, budget_ms=3000).budget_ms == 3000


@pytest.mark.parametrize("lane", list(Lane))
def test_a_submitted_job_can_be_read_by_a_worker(bus: MemoryBus, clip: Path, lane: Lane) -> None:
    job = job_of(str(clip), lane=lane, title="a title")
    assert submit([job], bus=bus, topics=TOPICS) == 1
    [record] = bus.records(TOPICS.of_lane(lane))
    read = parse_job(record.value, record.headers)
    assert read.model_copy(update={"ingested_at": None}) == job
    assert read.ingested_at is not None
    assert record.key == job.video_id.encode()
    assert header(record.headers, "ce_type") == EventType.JOB
    assert header(record.headers, "ce_id") == job.job_id


@pytest.mark.parametrize("step", ["send", "acknowledge"])
def test_a_job_that_was_not_stored_is_an_error(bus: MemoryBus, clip: Path, step: str) -> None:
    bus.fail_next(step, BusError("away", retryable=True))
    with pytest.raises(BusError, match="away"):
        submit([job_of(str(clip))], bus=bus, topics=TOPICS)


def test_following_shows_what_comes_from_now_on(bus: MemoryBus) -> None:
    put(bus, result("old"))
    with Answers(bus, TOPICS) as answers:
        put(bus, result("new"))
        assert next(answers.follow()).job_id == "new"


def test_looking_shows_what_is_there_and_ends(bus: MemoryBus) -> None:
    for number in range(5):
        put(bus, result(str(number)))
    with Answers(bus, TOPICS, from_start=True) as answers:
        assert sorted(answer.job_id or "" for answer in answers.present()) == list("01234")


def test_what_is_no_answer_is_passed_over(bus: MemoryBus) -> None:
    bus.append([Outgoing(TOPICS.results, key=b"v", value=value) for value in (b"\xff", b"{}", None, b"[" * 100_000)])
    put(bus, result("good"))
    with Answers(bus, TOPICS, from_start=True) as answers:
        assert [answer.job_id for answer in answers.present()] == ["good"]


@pytest.fixture
def letter(bus: MemoryBus) -> DeadLetter:
    bus.append([Outgoing(TOPICS.realtime, key=b"v", value=b"rubbish\x1b")])
    [record] = bus.records(TOPICS.realtime)
    return DeadLetter(
        pipeline_version="1",
        original=original_record(record),
        job_id="bad",
        code=ErrorCode.BAD_MESSAGE,
        error_class="NotJson",
        reason="it says \x1b[31mred",
        stage="parse",
        first_failed_at=datetime.now(UTC),
    )


def test_waiting_ends_when_all_are_answered_or_dead(bus: MemoryBus, letter: DeadLetter) -> None:
    with Answers(bus, TOPICS) as answers:
        for answer in (result("somebody's"), result("good"), letter):
            put(bus, answer)
        came = list(answers.to(["good", "bad"], within_s=20))
    assert sorted(answer.job_id or "" for answer in came) == ["bad", "good"]


def test_waiting_ends_when_time_is_up(bus: MemoryBus) -> None:
    with Answers(bus, TOPICS) as answers:
        assert list(answers.to(["never"], within_s=0.05)) == []


@pytest.mark.parametrize(
    "answer",
    [
        result(video_id="a\x1b[2Jb\nc\u202e", summary="one\ntwo \x1b]0;title\x07 \x9b31m"),
        result(status=ResultStatus.REJECTED, error=ErrorInfo(code=ErrorCode.NOT_MEDIA, message="\x1b[31m\r\n")),
    ],
)
def test_hostile_words_stay_in_their_line(answer: FusedResult) -> None:
    line = answer_line(answer).plain
    assert not any(ch in line for ch in "\x1b\n\r\x07\x9b\u202e")
    assert answer.status in line


def test_markup_in_words_is_just_words() -> None:
    assert "[bold]not bold[/bold]" in answer_line(result(summary="[bold]not bold[/bold]")).plain


def test_a_dead_letter_says_where_the_message_lies_and_why(letter: DeadLetter) -> None:
    line = answer_line(letter).plain
    assert "dead letter" in line
    assert "test.video.jobs.realtime, partition" in line
    assert "NotJson: it says [31mred" in line


def test_json_of_a_job_is_one_line(clip: Path) -> None:
    assert json.loads(job_of(str(clip)).model_dump_json())["video_id"].startswith("my clip.mp4-")

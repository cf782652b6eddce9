"""The checker itself: it finds what is lost, doubled or strange, and nothing else."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipeline.bus.base import Outgoing, Partition, Record
from pipeline.bus.topics import Topics
from pipeline.client import job_message
from pipeline.ingest.clock_skew import ClockSkew
from pipeline.ingest.message import BadMessage, IngestClocks, IngestedJob, Poison, job_from_record
from pipeline.service.letters import (
    Sender,
    Timing,
    dead_letter,
    handover_letter,
    result_letter,
    sla_letter,
    unanswered,
)
from schemas.errors import Overloaded
from schemas.job import Lane, VideoJob
from schemas.result import ResultStatus
from tests.service_checker import Books
from tests.service_jobs import job, message

TOPICS = Topics()
SENDER = Sender("w1", TOPICS, wall=lambda: 0.0)
CLOCKS = IngestClocks(lambda: 0.0, lambda: 0.0, ClockSkew())
ONCE = Timing(waited_s=0.0, took_s=0.1)


def lying(sent: Outgoing, offset: int = 0) -> Record:
    """``sent``, as it lies on its topic."""
    return Record(Partition(sent.topic, 0), offset, sent.key, sent.value, sent.headers, timestamp_ms=0)


class Story:
    """One job, and what a worker writes about it."""

    def __init__(self, books: Books, asked: VideoJob) -> None:
        self._books = books
        self._record = lying(job_message(asked, topics=TOPICS, now=datetime.now(UTC)))
        self._ingested = self._read(self._record, asked.lane)
        self.case = books.expect(asked.job_id, asked.lane, trace_id=self._ingested.trace.trace_id)
        books.note(self._record)

    def is_answered(self, status: ResultStatus, *, counted: bool = True) -> None:
        away = status is ResultStatus.REJECTED
        error = Overloaded("no room", retry_after_s=1) if away else None
        result = unanswered(self._ingested.job, status, error)
        self._books.note(lying(result_letter(SENDER, self._ingested, result)))
        if counted:
            self.is_counted(status)

    def is_counted(self, status: ResultStatus = ResultStatus.COMPLETE) -> None:
        result = unanswered(self._ingested.job, status)
        self._books.note(lying(sla_letter(SENDER, self._ingested, result, ONCE)))

    def is_handed_over(self) -> "Story":
        """Go on as the job of the backfill lane."""
        record = lying(handover_letter(SENDER, self._ingested))
        self._books.note(record)
        heir = object.__new__(Story)
        heir._books, heir._record = self._books, record
        heir._ingested = self._read(record, Lane.BACKFILL)
        return heir

    @staticmethod
    def _read(record: Record, lane: Lane) -> IngestedJob:
        return job_from_record(record, lane=lane, clocks=CLOCKS)


@pytest.fixture
def books() -> Books:
    return Books(TOPICS)


def test_a_job_with_one_answer_is_right(books: Books) -> None:
    Story(books, job(1)).is_answered(ResultStatus.PARTIAL)
    assert books.open == 0
    verdict = books.verdict().require_clean()
    assert (verdict.accepted, verdict.answers) == (1, {ResultStatus.PARTIAL: 1})


def test_a_lost_job_is_found_and_named(books: Books) -> None:
    Story(books, job(1)).is_answered(ResultStatus.COMPLETE)
    Story(books, job(2))
    assert books.open == 1
    with pytest.raises(AssertionError, match=r"lost: 1\n  job-2 \(realtime\): no answer"):
        books.verdict().require_clean()


def test_a_doubled_answer_is_found_and_its_history_told(books: Books) -> None:
    story = Story(books, job(1))
    story.is_answered(ResultStatus.COMPLETE)
    story.is_answered(ResultStatus.EXPIRED)
    with pytest.raises(AssertionError, match=r"doubled: 1\n(.|\n)*result complete by w1(.|\n)*result expired by w1"):
        books.verdict().require_clean()


def test_a_job_that_is_sent_twice_is_owed_two_answers(books: Books) -> None:
    first, second = Story(books, job(1)), Story(books, job(1))
    first.is_answered(ResultStatus.COMPLETE)
    assert len(books.verdict().lost) == 1
    second.is_answered(ResultStatus.COMPLETE)
    books.verdict().require_clean()


def test_a_job_turned_away_is_owed_an_answer_of_the_backfill_lane(books: Books) -> None:
    story = Story(books, job(1))
    story.is_answered(ResultStatus.REJECTED)
    assert "turned away and not handed over" in str(books.verdict())
    heir = story.is_handed_over()
    assert "handed over and not answered" in str(books.verdict())
    heir.is_answered(ResultStatus.COMPLETE)
    assert books.verdict().require_clean().handed_over == 1


def test_a_job_turned_away_is_done_with_where_nothing_is_handed_over() -> None:
    books = Books(TOPICS, hand_over=False)
    Story(books, job(1)).is_answered(ResultStatus.REJECTED)
    books.verdict().require_clean()


def test_a_job_that_is_handed_over_twice_is_found(books: Books) -> None:
    story = Story(books, job(1))
    story.is_answered(ResultStatus.REJECTED)
    for heir in (story.is_handed_over(), story.is_handed_over()):
        heir.is_answered(ResultStatus.COMPLETE)
    assert "handed over 2 times" in str(books.verdict())


def test_a_doubled_answer_does_not_make_up_for_one_that_is_lost(books: Books) -> None:
    story = Story(books, job(1))
    story.is_handed_over()
    for _ in range(2):
        story.is_answered(ResultStatus.REJECTED)
    assert not books.verdict().clean


def test_an_answer_that_is_not_in_the_account_is_found(books: Books) -> None:
    Story(books, job(1)).is_answered(ResultStatus.COMPLETE, counted=False)
    assert "not in the account: realtime" in str(books.verdict())


def test_an_answer_is_waited_for_until_it_is_in_the_account_of_every_lane(books: Books) -> None:
    story = Story(books, job(1))
    story.is_answered(ResultStatus.REJECTED)
    heir = story.is_handed_over()
    heir.is_answered(ResultStatus.COMPLETE, counted=False)
    assert books.open == 1
    heir.is_counted()
    assert books.open == 0
    books.verdict().require_clean()


def test_a_job_that_the_broker_refused_is_owed_nothing(books: Books) -> None:
    Story(books, job(1)).case.accepted = False
    assert books.open == 0
    assert books.verdict().require_clean().accepted == 0


def test_a_result_about_nothing_that_was_sent_is_found(books: Books) -> None:
    Story(Books(TOPICS), job(1))
    stranger = Story(Books(TOPICS), job(2))
    stranger._books = books
    stranger.is_answered(ResultStatus.COMPLETE)
    assert len(books.verdict().strange) == 2


def test_what_is_no_job_is_owed_a_dead_letter(books: Books) -> None:
    books.expect("key-1", None, trace_id="key-1")
    record = lying(message(TOPICS.realtime, "key-1", b"{"))
    books.note(record)
    assert "no dead letter" in str(books.verdict())
    letter = lying(dead_letter(SENDER, record, BadMessage(Poison.NOT_JSON, "no JSON")))
    books.note(letter)
    assert books.verdict().require_clean().dead_letters == {"NotJson": 1}
    books.note(replace(letter, offset=1))
    assert "2 dead letters" in str(books.verdict())

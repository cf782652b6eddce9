"""Whatever lies on a topic, it becomes an order or a dead letter, and the record is owed until that is stored."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.bus.base import Headers, Record
from pipeline.ingest.clock_skew import ClockSkew
from pipeline.ingest.message import BadMessage, IngestClocks
from pipeline.service.dispatcher import Order
from pipeline.service.intake import Intake
from pipeline.service.ledger import Claim, Ledger
from pipeline.service.letters import dead_letter, handover_letter, result_letter, unanswered
from schemas.errors import DeadlineExceeded
from schemas.events import DeadLetter
from schemas.job import Lane, VideoJob
from schemas.result import ResultStatus
from tests.unit.service_parts import SENDER, TOPICS, WALL_S, partition

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
nearly_a_job = st.fixed_dictionaries(
    {"job_id": st.text(max_size=5), "video_id": st.text(max_size=5), "source": st.just({"uri": "file:///a"})},
    optional={
        "schema_version": st.integers(0, 2),
        "title": st.text(max_size=5),
        "lane": st.sampled_from(["realtime", "backfill", "express"]),
        "priority": st.integers(-1, 10),
        "budget_ms": st.none() | st.integers(-1, 10**12),
        "ingested_at": st.just("2026-01-01T00:00:00Z") | st.text(max_size=5),
        "want": st.lists(st.text(max_size=3), max_size=2),
    },
)
values = (
    st.none() | st.binary(max_size=40) | (anything | nearly_a_job).map(lambda document: json.dumps(document).encode())
)
headers = st.lists(
    st.tuples(
        st.sampled_from(["ce_type", "content-type", "traceparent"]) | st.text(max_size=300), st.binary(max_size=60)
    ),
    max_size=3,
).map(tuple)


class Ends:
    """Takes orders and poison, and writes the messages that follow from them."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.dead: list[DeadLetter] = []

    def offer(self, order: Order) -> None:
        self.orders.append(order)
        answer = unanswered(order.job, ResultStatus.EXPIRED, DeadlineExceeded())
        assert result_letter(SENDER, order.ingested, answer).value
        again = VideoJob.model_validate_json(handover_letter(SENDER, order.ingested).value or b"", strict=True)
        assert again.job_id == order.job.job_id

    def waiting(self, lane: Lane) -> int:
        return 0

    def unreadable(self, record: Record, claim: Claim, error: BadMessage) -> None:
        self.dead.append(DeadLetter.model_validate_json(dead_letter(SENDER, record, error).value or b""))


@settings(deadline=None)
@given(
    value=values,
    headers=headers,
    key=st.none() | st.binary(max_size=20),
    timestamp_ms=st.integers(-1, 2**62),
    lane=st.sampled_from(Lane),
)
def test_every_record_ends_one_way_or_the_other(
    value: bytes | None, headers: Headers, key: bytes | None, timestamp_ms: int, lane: Lane
) -> None:
    ends, ledger = Ends(), Ledger()
    clocks = IngestClocks(lambda: WALL_S, lambda: 50.0, ClockSkew())
    intake = Intake(ledger, ends, ends, topics=TOPICS, clocks=clocks, hold=lambda _: None)
    at = partition(lane)
    ledger.assign([at], {})
    intake.take([Record(at, 0, key, value, headers, timestamp_ms)], as_of=ledger.term)
    assert len(ends.orders) + len(ends.dead) == 1
    assert ledger.open() == 1
    for order in ends.orders:
        assert order.job.lane is lane
        assert ledger.holds(order.claim)

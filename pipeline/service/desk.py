"""Where every record ends: exactly one parcel of messages, and its offset settled when they are stored."""

from collections import Counter
from functools import partial

from pipeline.bus.base import Outgoing, Record
from pipeline.bus.errors import BusError
from pipeline.ingest.message import BadMessage
from pipeline.service.admission import Verdict
from pipeline.service.answered import with_origin
from pipeline.service.dispatcher import Order
from pipeline.service.ledger import Claim
from pipeline.service.letters import (
    Sender,
    Timing,
    bad_video_letter,
    dead_letter,
    handover_letter,
    result_letter,
    sla_letter,
    unanswered,
)
from pipeline.service.outbox import Parcel
from pipeline.service.post import Post
from pipeline.service.posting import PostingTime
from schemas.deadline import Clock
from schemas.errors import DeadlineExceeded, ErrorCode, Overloaded, StageError
from schemas.job import Lane
from schemas.result import FusedResult, ResultStatus

_MAY_BE_ANSWERED_LATER = frozenset({ResultStatus.REJECTED, ResultStatus.EXPIRED})
"""If the error is not one for good."""


class Desk:
    """Implements ``Outcomes``. Belongs to one event loop; what it posts goes out on the outbox's thread."""

    def __init__(self, post: Post, sender: Sender, *, hand_over: bool, clock: Clock) -> None:
        """``hand_over``: whether realtime jobs that were turned away go on in the backfill lane."""
        self._clock = clock
        self._outbox = post
        self._sender = sender
        self._hand_over = hand_over
        self.posting = PostingTime()
        self.counts: Counter[tuple[Lane, ResultStatus]] = Counter()
        self.dead_letters = 0
        self.late = 0

    def answered(self, order: Order, result: FusedResult) -> None:
        """Post a result; of a clip that can never be analysed a dead letter, too, for whoever looks after them."""
        more: list[Outgoing] = []
        error = result.error
        if result.status is ResultStatus.REJECTED and error is not None and not error.retryable:
            more.append(bad_video_letter(self._sender, order.record, order.job, error))
            self.dead_letters += 1
        elif result.status in _MAY_BE_ANSWERED_LATER:
            more += self._handed_over(order)  # a store that is away or slow may come back
        self._post(order, result, more)

    def refused(self, order: Order, verdict: Verdict) -> None:
        """Post that there is no room, and hand the job to the backfill lane."""
        message = f"no room before the deadline; try again in {verdict.retry_after_s:.1f} s"
        error = Overloaded(message, retry_after_s=verdict.retry_after_s)
        self._turn_away(order, unanswered(order.job, ResultStatus.REJECTED, error))

    def expired(self, order: Order) -> None:
        """Post that its time was over, and hand the job to the backfill lane."""
        self._turn_away(order, unanswered(order.job, ResultStatus.EXPIRED, DeadlineExceeded()))

    def broken(self, order: Order, error: Exception) -> None:
        """Post that it is our fault."""
        fault = StageError(ErrorCode.INTERNAL, f"analysis broke: {type(error).__name__}")
        self._post(order, unanswered(order.job, ResultStatus.REJECTED, fault), [])

    def unreadable(self, record: Record, claim: Claim, error: BadMessage) -> None:
        """Post a message that no job could be read from."""
        self.dead_letters += 1
        self._outbox.put(Parcel(claim, [with_origin(dead_letter(self._sender, record, error), record)]))

    def _turn_away(self, order: Order, result: FusedResult) -> None:
        self._post(order, result, self._handed_over(order))

    def _handed_over(self, order: Order) -> list[Outgoing]:
        goes_on = self._hand_over and order.job.lane is Lane.REALTIME
        return [handover_letter(self._sender, order.ingested)] if goes_on else []

    def _post(self, order: Order, result: FusedResult, more: list[Outgoing]) -> None:
        timing = self._timing(order)
        budget_ms = order.job.budget_ms
        self.counts[order.job.lane, result.status] += 1
        self.late += budget_ms is not None and timing.took_s * 1e3 > budget_ms
        letters = [
            *more,
            sla_letter(self._sender, order.ingested, result, timing),
            result_letter(self._sender, order.ingested, result),
        ]
        messages = [with_origin(letter, order.record) for letter in letters]
        put_s = self._clock()
        self._outbox.put(
            Parcel(
                order.claim,
                messages,
                undeliverable=partial(self._instead, order),
                stored=lambda: self.posting.observe(self._clock() - put_s),
            )
        )

    def _instead(self, order: Order, message: Outgoing, error: BusError) -> list[Outgoing]:
        """Return what is sent instead of a result that the bus refuses: a short one. Nothing stands for the others."""
        if message.topic != self._sender.topics.results:
            return []
        fault = StageError(ErrorCode.INTERNAL, f"the result could not be sent: {error.message}")
        short = unanswered(order.job, ResultStatus.REJECTED, fault)
        return [with_origin(result_letter(self._sender, order.ingested, short), order.record)]

    def _timing(self, order: Order) -> Timing:
        """Return the order's times, on the clock of its deadline, from the record's timestamp on."""
        now_s = self._clock()
        sent_s = order.read_s - order.ingested.age_s
        begun_s = now_s if order.begun_s is None else order.begun_s
        return Timing(waited_s=begun_s - sent_s, took_s=now_s - sent_s)

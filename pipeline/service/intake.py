"""Takes records over from the poll thread and makes orders of them. Belongs to one event loop."""

from collections.abc import Callable, Sequence

from pipeline.bus.base import Record
from pipeline.bus.topics import Topics
from pipeline.ingest.message import BadMessage, IngestClocks, job_from_record
from pipeline.service.desk import Desk
from pipeline.service.dispatcher import Dispatcher, Order
from pipeline.service.ledger import Ledger
from schemas.job import Lane

HIGH_WATER = {Lane.REALTIME: 512, Lane.BACKFILL: 32}
"""Waiting orders at which a lane's topic is held back. Realtime is refused at the door long before."""

LOW_WATER = {Lane.REALTIME: 256, Lane.BACKFILL: 8}
"""At which it comes again."""

Hold = Callable[[frozenset[str]], None]
"""Says of which topics nothing more may come for now."""


class Intake:
    """Reads each record once, and keeps no more waiting than can be looked after."""

    def __init__(
        self, ledger: Ledger, dispatcher: Dispatcher, desk: Desk, *, topics: Topics, clocks: IngestClocks, hold: Hold
    ) -> None:
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._desk = desk
        self._topics = topics
        self._clocks = clocks
        self._hold = hold
        self._held: frozenset[str] = frozenset()
        self.read = 0
        self.read_again = 0
        """Records that were answered before, by us or by whoever had the partition then."""

    def take(self, records: Sequence[Record], *, as_of: int) -> None:
        """Make an order, or a dead letter, of each record. ``as_of``: the newest term when they were read."""
        for record in records:
            self._take(record, as_of=as_of)
        self.balance()

    def balance(self) -> None:
        """Hold back what is too much, let come what there is room for."""
        held = frozenset(topic for topic in map(self._topics.of_lane, Lane) if self._is_too_much(topic))
        if held != self._held:
            self._held = held
            self._hold(held)

    def _take(self, record: Record, *, as_of: int) -> None:
        claim = self._ledger.begin(record.partition, record.offset, as_of=as_of)
        if claim is None:
            self.read_again += 1
            return
        self.read += 1
        try:
            lane = self._topics.lane_of(record.partition.topic)
            ingested = job_from_record(record, lane=lane, clocks=self._clocks)
        except BadMessage as error:
            self._desk.unreadable(record, claim, error)
            return
        self._dispatcher.offer(Order(record, ingested, claim, read_s=self._clocks.monotonic()))

    def _is_too_much(self, topic: str) -> bool:
        lane = self._topics.lane_of(topic)
        limits = LOW_WATER if topic in self._held else HIGH_WATER
        return self._dispatcher.waiting(lane) >= limits[lane]

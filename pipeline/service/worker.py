"""The service as a whole: from the group's records to their answers.

::

    poll thread ── records ──► intake ──► dispatcher ──► analyst (fetch, analyse)
         ▲                        │            │             │
         │ settled offsets        └────────────┴──► desk ◄───┘
         └───────────── ledger ◄── stored ── outbox thread ◄─┘ messages
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pipeline.bus.base import Bus, Consumer, Producer, Record, TransactionalProducer
from pipeline.bus.errors import BusError
from pipeline.bus.topics import Topics
from pipeline.ingest.clock_skew import ClockSkew
from pipeline.ingest.message import IngestClocks, WallClock
from pipeline.service.answered import AnsweredSearch
from pipeline.service.desk import Desk
from pipeline.service.dispatcher import Analyst, Dispatcher, Places
from pipeline.service.intake import Intake
from pipeline.service.ledger import Ledger
from pipeline.service.letters import Sender
from pipeline.service.outbox import Outbox
from pipeline.service.poll_thread import PollThread
from pipeline.service.post import Post
from pipeline.service.takeover import Takeover
from pipeline.service.transactions import TransactionalOutbox
from schemas.job import Lane

T = TypeVar("T")
AnyProducer = TypeVar("AnyProducer", bound=Producer)

Disconnect = Callable[[], None]
"""Closes what was opened, at the very end. Blocks."""

log = logging.getLogger(__name__)

BALANCE_S = 0.05
"""How soon a lane that was held back is let in again once there is room."""

DRAIN_S = 5.0
"""For answers under way at the end: realtime has its budget, and what is not stored then is answered by others."""

LEAVE_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerPolicy:
    """How one worker works. ``least_s``: what the cheapest useful answer takes.

    ``exactly_once``: answers and offsets in transactions. Two workers with one ``worker_id`` exclude each other then.
    """

    worker_id: str
    group_id: str
    places: Places
    hand_over: bool = True
    least_s: float = 0.12
    exactly_once: bool = False


class Worker:
    """A member of the group. ``run`` once."""

    def __init__(
        self, bus: Bus, topics: Topics, analyst: Analyst, policy: WorkerPolicy, *, wall: WallClock = time.time
    ) -> None:
        self._bus = bus
        self._topics = topics
        self._policy = policy
        self._analyst = analyst
        self._wall = wall
        self.ledger = Ledger()
        self.skew = ClockSkew()
        self.desk: Desk | None = None
        self.dispatcher: Dispatcher | None = None
        self.intake: Intake | None = None
        self.takeover: Takeover | None = None
        self._poller: PollThread | None = None
        self._stop = asyncio.Event()
        self._failure: BusError | None = None

    def stop(self) -> None:
        """Drain and end. Only on the event loop."""
        self._stop.set()

    @property
    def ready(self) -> bool:
        """Whether it belongs to the group, with partitions or without, can answer, and has not been told to end."""
        alive = self._poller is not None and self._poller.alive
        return alive and self.ledger.joined and not self._stop.is_set()

    @property
    def silent_s(self) -> float:
        """How long ago the poll thread last came round."""
        return 0.0 if self._poller is None else time.monotonic() - self._poller.last_poll_s

    async def run(self) -> None:
        """Answer records until ``stop``. Raises ``BusError`` when the group or the broker refuses this worker."""
        loop = asyncio.get_running_loop()
        policy = self._policy
        consumer = await asyncio.to_thread(self._bus.consumer, group_id=policy.group_id, client_id=policy.worker_id)
        if policy.exactly_once:
            outbox, disconnect = await asyncio.to_thread(self._exactly_once, consumer, _on(loop, self._died))
        else:
            outbox, disconnect = await asyncio.to_thread(self._at_least_once)
        sender = Sender(policy.worker_id, self._topics, self._wall)
        self.desk = desk = Desk(outbox, sender, hand_over=policy.hand_over, clock=time.monotonic)
        self.dispatcher = dispatcher = Dispatcher(
            self._analyst,
            desk,
            places=policy.places,
            least_s=policy.least_s,
            still_ours=self.ledger.holds,
            spare_s=lambda: desk.posting.reserve_s,
            clock=time.monotonic,
        )
        poller = PollThread(
            consumer,
            self.ledger,
            topics=[self._topics.of_lane(lane) for lane in Lane],
            hand_over=partial(self._bring, loop),
            died=_on(loop, self._died),
            takeover=self.takeover,
            commits=not policy.exactly_once,
        )
        clocks = IngestClocks(self._wall, time.monotonic, self.skew)
        self.intake = Intake(self.ledger, dispatcher, desk, topics=self._topics, clocks=clocks, hold=poller.hold)
        self._poller = poller
        outbox.start()
        poller.start()
        try:
            await self._balance_until_stopped(self.intake)
        finally:
            self._stop.set()
            await asyncio.shield(self._wind_up(poller, dispatcher, outbox))
            await asyncio.to_thread(disconnect)
        if self._failure is not None:
            raise self._failure

    def _bring(self, loop: asyncio.AbstractEventLoop, records: Sequence[Record]) -> None:
        """Bring records from the poll thread to the loop, which may come to them after the next rebalance."""
        loop.call_soon_threadsafe(partial(self._take, records, as_of=self.ledger.term))

    def _take(self, records: Sequence[Record], *, as_of: int) -> None:
        try:
            if self.intake is not None and not self._stop.is_set():  # at the end others read them again
                self.intake.take(records, as_of=as_of)
        finally:
            if self._poller is not None:
                self._poller.taken(len(records))

    def _at_least_once(self) -> tuple[Post, Disconnect]:
        """Wait for the broker. What a crash may let store twice is looked for when partitions are taken over."""
        producer = self._prepared(self._bus.producer(client_id=self._policy.worker_id))
        reader = self._bus.reader(client_id=self._policy.worker_id)
        self.takeover = takeover = Takeover(AnsweredSearch(reader, self._topics), self.ledger)

        def disconnect() -> None:
            takeover.close()
            producer.close()

        return Outbox(producer, self.ledger), disconnect

    def _exactly_once(self, consumer: Consumer, died: Callable[[BusError], None]) -> tuple[Post, Disconnect]:
        """Wait for the broker, and until what a predecessor has left there is ended."""
        transactional_id = f"{self._policy.group_id}.{self._policy.worker_id}"

        def open_producer() -> TransactionalProducer:
            return self._prepared(self._bus.transactional_producer(transactional_id=transactional_id))

        outbox = TransactionalOutbox(open_producer, consumer, self.ledger, died=died)
        return outbox, outbox.disconnect

    def _prepared(self, producer: AnyProducer) -> AnyProducer:
        """Have the first answers go out as fast as all others. A topic that is missing may be created yet."""
        for error in producer.prepare(self._topics.written).values():
            log.warning("answers may have to wait: %s", error)
        return producer

    def _died(self, reason: BusError | None) -> None:
        self._failure = self._failure or reason
        self._stop.set()

    async def _balance_until_stopped(self, intake: Intake) -> None:
        while not self._stop.is_set():
            intake.balance()
            try:
                await asyncio.wait_for(self._stop.wait(), BALANCE_S)
            except TimeoutError:
                continue

    async def _wind_up(self, poller: PollThread, dispatcher: Dispatcher, outbox: Post) -> None:
        """Finish what is under way, have it stored, commit it, leave."""
        log.info("draining")
        poller.hold(frozenset(self._topics.of_lane(lane) for lane in Lane))
        try:
            await dispatcher.drain(timeout_s=DRAIN_S)
        except TimeoutError:
            log.warning("some answers were not ready in time; others will give them")
        if not await asyncio.to_thread(outbox.close, DRAIN_S):
            log.warning("some answers could not be stored; others will give them")
        if not await asyncio.to_thread(partial(poller.stop, LEAVE_S)):
            log.warning("the group could not be left properly; it will notice")


def _on(loop: asyncio.AbstractEventLoop, call: Callable[[T], None]) -> Callable[[T], None]:
    """Return ``call`` for use on other threads: it runs on ``loop``, soon."""

    def hand_over(value: T) -> None:
        loop.call_soon_threadsafe(call, value)

    return hand_over

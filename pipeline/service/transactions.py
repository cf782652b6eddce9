"""Stores answers and the offsets of their records together, or not at all: exactly once.

A worker that is killed leaves a transaction that nobody ever sees. One that comes back from the dead is refused by the
broker, twice over: its producer when another one has its transactional id, its offsets when the group went on without
it.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from pipeline.bus.base import Consumer, Membership, Offsets, TransactionalProducer
from pipeline.bus.errors import BusError, Fenced, StaleMember
from pipeline.service.ledger import Ledger
from pipeline.service.outbox import Parcel
from pipeline.service.tally import Tally

log = logging.getLogger(__name__)

GATHER_S = 0.02
"""How long the first parcel of a transaction waits for others: a transaction costs some 10 ms, whatever is in it."""

MOST_PARCELS = 500
"""Of one transaction: some MB."""

COMMIT_WITHIN_S = 5.0

BACKOFF_S = 0.5
"""Between attempts while the broker is away."""

REJOIN_S = 0.05
"""Between attempts while the group is being shared out anew."""


class TransactionalOutbox:
    """Implements ``Post``: a thread that commits one transaction after another."""

    def __init__(
        self,
        open_producer: Callable[[], TransactionalProducer],
        consumer: Consumer,
        ledger: Ledger,
        *,
        died: Callable[[BusError], None],
    ) -> None:
        """Open a producer. ``died`` is told, on the thread, when this worker must stop. Raises ``BusError``."""
        self._open_producer = open_producer
        self._consumer = consumer
        self._ledger = ledger
        self._died = died
        self._producer = open_producer()
        self._parcels: queue.SimpleQueue[Parcel] = queue.SimpleQueue()
        self._tally = Tally()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transactions", daemon=True)

    @property
    def unstored(self) -> int:
        """Parcels that are not known to be stored."""
        return self._tally.count

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, parcel: Parcel) -> None:
        """Send all of ``parcel`` with one of the next transactions."""
        self._tally.add(1)
        self._parcels.put(parcel)

    def close(self, timeout_s: float) -> bool:
        """Wait until everything is stored, then end. False when it is not: it will be answered again."""
        stored = self._tally.wait_for_none(timeout_s)
        self._stopping.set()
        self._thread.join(timeout=COMMIT_WITHIN_S)
        return stored

    def disconnect(self) -> None:
        """Close the producer."""
        self._producer.close()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                parcels = self._gather()
                while parcels and not self._stopping.is_set():
                    parcels = self._attempt(parcels)
        except Fenced as error:
            log.error("this worker is one too many: %s", error)  # noqa: TRY400  (the reason is all there is to say)
            self._die(error)
        except Exception as error:  # a bug: answers that nobody sends must not go unnoticed
            log.exception("the thread of the transactions broke")
            self._die(BusError(f"the thread of the transactions broke: {type(error).__name__}", retryable=False))

    def _die(self, error: BusError) -> None:
        self._tally.give_up()
        self._died(error)

    def _gather(self) -> list[Parcel]:
        try:
            parcels = [self._parcels.get(timeout=0.1)]
        except queue.Empty:
            return []
        self._stopping.wait(GATHER_S)
        while not self._parcels.empty() and len(parcels) < MOST_PARCELS:
            parcels.append(self._parcels.get())
        return parcels

    def _attempt(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Store ``parcels`` and return those that remain to be stored. Raises ``Fenced``."""
        # Who we are comes first. Whoever takes a claim away that is held after that makes this membership stale, and
        # the broker refuses the transaction.
        member = self._consumer.membership()
        offsets, held = self._ledger.stake(parcel.claim for parcel in parcels)
        ours = [parcel for parcel in parcels if parcel.claim in held]
        self._tally.add(len(ours) - len(parcels))
        if not ours:
            return []
        if member.generation < 0:  # the broker lets such members commit whatever they like: old clients know no better
            self._stopping.wait(REJOIN_S)
            return ours
        try:
            self._store(ours, offsets, member)
        except Fenced:
            raise
        except StaleMember as error:
            log.info("the group has changed; what is still ours is sent again: %s", error)
            self._undo()
            return ours
        except BusError as error:
            log.warning("a transaction failed: %s", error)
            if not self._went_through(offsets):
                return self._sendable(ours)
        self._settle(ours, offsets)
        return []

    def _store(self, parcels: Sequence[Parcel], offsets: Offsets, member: Membership) -> None:
        self._producer.begin()
        for parcel in parcels:
            self._send(parcel)
        self._producer.commit(offsets, member=member, timeout_s=COMMIT_WITHIN_S)

    def _send(self, parcel: Parcel) -> None:
        for message in parcel.messages:
            try:
                self._producer.send(message)
            except Fenced:
                raise
            except BusError as error:
                if not error.retryable:
                    log.error("a message to %s cannot be delivered: %s", message.topic, error)  # noqa: TRY400
                    parcel.replace(message, error)
                raise

    def _sendable(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Leave out those of which nothing is left to send: their records stay open."""
        sendable = [parcel for parcel in parcels if parcel.messages]
        self._tally.add(len(sendable) - len(parcels))
        return sendable

    def _undo(self) -> None:
        self._stopping.wait(REJOIN_S)
        try:
            self._producer.abort()
        except Fenced:
            raise
        except BusError as error:
            log.warning("a transaction could not be undone; beginning anew: %s", error)
            self._begin_anew()

    def _went_through(self, offsets: Offsets) -> bool:
        """Find out, with a new producer, whether a transaction is stored whose end is not known.

        A new producer of the same id ends what the old one has left, one way or the other. After that the group's
        offsets tell, as nobody else commits for partitions that are ours.
        """
        while not self._stopping.is_set():
            try:
                self._begin_anew()
                return dict(self._consumer.committed(list(offsets))) == dict(offsets)
            except Fenced:
                raise
            except BusError as error:
                log.warning("the broker is away: %s", error)
                self._stopping.wait(BACKOFF_S)
        return False

    def _begin_anew(self) -> None:
        self._producer.close()
        self._producer = self._open_producer()

    def _settle(self, parcels: Sequence[Parcel], offsets: Offsets) -> None:
        self._ledger.committed(offsets)
        for parcel in parcels:
            self._ledger.settle(parcel.claim)
            if parcel.stored is not None:
                parcel.stored()
        self._tally.add(-len(parcels))

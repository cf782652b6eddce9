"""Sends answers, and settles their records once the bus has stored them.

A thread of its own, because a producer may wait for a broker that is away, and the event loop must not.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline.bus.base import Outgoing, Producer
from pipeline.bus.errors import BusError
from pipeline.service.ledger import Claim, Ledger
from pipeline.service.tally import Tally

log = logging.getLogger(__name__)

BACKOFF_S = 0.5
"""Between attempts while the broker is away."""

DOUBT_S = 0.02
"""Between looks at whether the records are ours beyond doubt: after a freeze, or while the broker is away."""


@dataclass(slots=True, eq=False)
class Parcel:
    """Messages that belong together: when all are stored, ``claim`` is settled.

    The last one is the answer. It goes out when the others are stored, so that whoever finds it after a crash knows
    that nothing is missing.

    ``undeliverable`` makes what is sent instead of a message that the bus will never take (too large). Without anything
    instead the parcel is never whole: its record stays open, and is begun anew by whoever has the partition next.
    """

    claim: Claim
    messages: Sequence[Outgoing]
    undeliverable: Callable[[Outgoing, BusError], Sequence[Outgoing]] | None = None
    stored: Callable[[], None] | None = None
    left: int = field(init=False)
    ahead: int = field(init=False)
    """Messages that the answer waits for."""
    answer_out: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.left = len(self.messages)
        self.ahead = len(self.messages) - 1

    def replace(self, message: Outgoing, error: BusError) -> None:
        """Put what can be sent in the place of a message that cannot; empty the parcel when there is nothing."""
        instead = [] if self.undeliverable is None else list(self.undeliverable(message, error))
        self.undeliverable = None
        self.messages = [*(kept for kept in self.messages if kept is not message), *instead] if instead else []


class Outbox:
    """Holds parcels until the bus has them. ``put`` may be called from any thread."""

    def __init__(self, producer: Producer, ledger: Ledger) -> None:
        self._producer = producer
        self._ledger = ledger
        self._parcels: queue.SimpleQueue[tuple[Parcel, Outgoing] | None] = queue.SimpleQueue()
        self._tally = Tally()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    @property
    def unstored(self) -> int:
        """Messages that are not known to be stored."""
        return self._tally.count

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, parcel: Parcel) -> None:
        """Send all of ``parcel``, however long the broker is away, but for what another worker has sent already."""
        self._tally.add(len(parcel.messages))
        for message in parcel.messages[:-1]:
            self._queue(parcel, message)
        self._release_answer(parcel, concluded=0)

    def close(self, timeout_s: float) -> bool:
        """Wait until everything is stored, then end. False when that took longer: it will be answered again."""
        stored = self._tally.wait_for_none(timeout_s)
        self._stopping.set()
        self._parcels.put(None)
        self._thread.join(timeout=1.0)
        return stored

    def _queue(self, parcel: Parcel, message: Outgoing) -> None:
        if message.topic in self._ledger.parts(parcel.claim):
            self._stored(parcel)
        else:
            self._parcels.put((parcel, message))

    def _release_answer(self, parcel: Parcel, *, concluded: int = 1) -> None:
        """Let the answer go once nothing is ahead of it."""
        with parcel.lock:
            parcel.ahead -= concluded
            due = parcel.ahead <= 0 and not parcel.answer_out
            parcel.answer_out |= due
        if due:
            self._queue(parcel, parcel.messages[-1])

    def _run(self) -> None:
        while (item := self._parcels.get()) is not None:
            self._send(*item)

    def _send(self, parcel: Parcel, message: Outgoing) -> None:
        """Hand one message to the producer, which reports from a thread of its own."""
        while not self._ledger.certain and not self._stopping.is_set():
            self._stopping.wait(DOUBT_S)
        if not self._ledger.holds(parcel.claim):  # somebody else answers this record by now
            self._tally.add(-1)
            self._release_answer(parcel)
            return
        try:
            self._producer.send(message, lambda error: self._acknowledged(parcel, message, error))
        except BusError as error:
            self._acknowledged(parcel, message, error)

    def _acknowledged(self, parcel: Parcel, message: Outgoing, error: Exception | None) -> None:
        if error is None:
            self._stored(parcel)
        elif isinstance(error, BusError) and not error.retryable:
            self._give_up(parcel, message, error)
        elif not self._stopping.is_set():
            log.warning("a message to %s is sent again: %s", message.topic, error)
            again = threading.Timer(BACKOFF_S, self._parcels.put, ((parcel, message),))
            again.daemon = True
            again.start()

    def _stored(self, parcel: Parcel) -> None:
        with parcel.lock:
            parcel.left -= 1
            whole = parcel.left == 0
        if whole:
            self._ledger.settle(parcel.claim)
            if parcel.stored is not None:
                parcel.stored()
        self._tally.add(-1)
        self._release_answer(parcel)

    def _give_up(self, parcel: Parcel, message: Outgoing, error: BusError) -> None:
        """Send what stands for a message that cannot be sent. If that cannot either, the record stays open."""
        log.error("a message to %s cannot be delivered: %s", message.topic, error)
        instead = [] if parcel.undeliverable is None else list(parcel.undeliverable(message, error))
        if instead:
            parcel.undeliverable = None
            with parcel.lock:
                parcel.left += len(instead) - 1
                parcel.ahead += len(instead)
        self._tally.add(len(instead) - 1)
        for substitute in instead:
            self._parcels.put((parcel, substitute))
        self._release_answer(parcel)

"""The one thread that talks to the consumer group: polls back to back, hands records over, commits what is settled."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from pipeline.bus.base import Consumer, Offsets, Partition, Record
from pipeline.bus.errors import BusError
from pipeline.service.ledger import Ledger
from pipeline.service.takeover import Takeover
from pipeline.service.tally import Tally

log = logging.getLogger(__name__)

POLL_S = 0.1
"""The longest that a commit or a pause waits for an idle poll."""

COMMIT_EVERY_S = 0.2
"""What a killed worker may have answered beyond its last commit. Each commit is one small message."""

REVOKE_WAIT_S = 0.8
"""When partitions are taken away: a realtime answer under way is ready within its budget; backfill is begun anew."""

BACKOFF_S = 0.5
"""Between polls while the broker is away."""

MOST_UNTAKEN = 1_000
"""Records that may lie between this thread and the event loop, give or take those of one poll. A loop that takes none
is stuck: what it is not given, others can answer, or this worker when it goes on."""

HandOver = Callable[[Sequence[Record]], None]
"""Gives records to the event loop, which then says that they are ``taken``. Called on the poll thread; never blocks."""

Died = Callable[[BusError | None], None]
"""Told once when the thread has ended, with why, if not because it was asked to."""


class PollThread:
    """A consumer on a thread of its own.

    ``hold`` and ``release`` say, from any thread, of which topics nothing more may come for now: the membership stays,
    as do records that were handed over.
    """

    def __init__(
        self,
        consumer: Consumer,
        ledger: Ledger,
        *,
        topics: Sequence[str],
        hand_over: HandOver,
        died: Died,
        takeover: Takeover | None = None,
        commits: bool = True,
    ) -> None:
        """``takeover``: finds out what others have answered; ``commits``: False where transactions do it."""
        self._consumer = consumer
        self._ledger = ledger
        self._topics = topics
        self._hand_over = hand_over
        self._died = died
        self._takeover = takeover
        self._commits = commits
        self._held: frozenset[str] = frozenset()
        self._paused: frozenset[Partition] = frozenset()
        self._untaken = Tally()
        self._is_behind = False
        self._stopping = threading.Event()
        self._committed_s = time.monotonic()
        self.last_poll_s = time.monotonic()
        """When the last poll returned: an old one means that the thread hangs."""
        self._thread = threading.Thread(target=self._run, name="poll", daemon=True)

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def taken(self, count: int) -> None:
        """Hear, on any thread, that the event loop has taken ``count`` of the records that were handed over."""
        self._untaken.add(-count)

    def hold(self, topics: frozenset[str]) -> None:
        """Let nothing come from ``topics`` (those, and no others) until told otherwise."""
        self._held = topics

    def stop(self, timeout_s: float) -> bool:
        """Commit, leave the group and end. False when that took longer. Blocks."""
        self._stopping.set()
        self._consumer.wake()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # Rebalancing: called within poll and close

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Take over from where the group has committed, and from what others have answered beyond that."""
        committed = self._committed(partitions)
        terms = self._ledger.assign(partitions, committed, sought=self._takeover is not None)
        self._paused -= frozenset(partitions)  # one that is new comes unpaused, even if it was ours before
        if self._takeover is not None:
            self._consumer.pause(partitions)
            self._paused |= frozenset(partitions)
            self._takeover.begin(terms, committed, done=self._consumer.wake)
        log.info("assigned: %s", _listed(partitions))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Wait a moment for answers under way (at the end there are none any more), commit, let go."""
        if not self._stopping.is_set():
            self._ledger.wait_until_settled(partitions, timeout_s=REVOKE_WAIT_S)
        self._commit(partitions)
        self._ledger.revoke(partitions)
        log.info("revoked: %s", _listed(partitions))

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Let go at once: somebody else answers these records."""
        self._ledger.revoke(partitions)
        log.warning("lost: %s", _listed(partitions))

    # The thread

    def _run(self) -> None:
        reason: BusError | None = None
        try:
            self._consumer.subscribe(self._topics, self)
            while not self._stopping.is_set():
                self._poll()
        except BusError as error:
            reason = error
        except Exception as error:  # a bug: a worker that reads nothing must not look as if it had ended well
            log.exception("the poll thread broke")
            reason = BusError(f"the poll thread broke: {type(error).__name__}", retryable=False)
        finally:
            self._leave()
            self._died(reason)

    def _poll(self) -> None:
        self._pause_what_is_held()
        try:
            records = self._consumer.poll(POLL_S)
        except BusError as error:
            if not error.retryable:
                raise
            log.warning("the broker is away: %s", error)
            self._stopping.wait(BACKOFF_S)
            return
        finally:
            self.last_poll_s = time.monotonic()
            self._ledger.confirm(self._consumer.confirmed_s)
        if records:
            self._untaken.add(len(records))
            self._hand_over(records)
        if time.monotonic() - self._committed_s >= COMMIT_EVERY_S:
            self._commit()

    def _pause_what_is_held(self) -> None:
        ours = self._ledger.partitions
        held = self._held
        sought = self._ledger.sought
        behind = self._loop_is_behind()
        wanted = frozenset(at for at in ours if behind or at.topic in held or at in sought)
        if more := wanted - self._paused:
            self._consumer.pause(sorted(more))
        if fewer := self._paused - wanted:
            self._consumer.resume(sorted(fewer))
        self._paused = wanted

    def _loop_is_behind(self) -> bool:
        """Whether the event loop was given so much that nothing more may come until it has taken all of it."""
        untaken = self._untaken.count
        was_behind, self._is_behind = self._is_behind, untaken > 0 if self._is_behind else untaken >= MOST_UNTAKEN
        if self._is_behind and not was_behind:
            log.warning("the event loop does not take its records: %d are waiting", untaken)
        return self._is_behind

    def _committed(self, partitions: Sequence[Partition]) -> Offsets:
        """Return where the group is: without that, nobody knows which of the records that come are answered already."""
        while True:
            try:
                return self._consumer.committed(partitions)
            except BusError as error:
                if not error.retryable or self._stopping.is_set():
                    raise
                log.warning("the broker is away: %s", error)
                self._stopping.wait(BACKOFF_S)

    def _commit(self, partitions: Sequence[Partition] | None = None) -> None:
        self._committed_s = time.monotonic()
        offsets = self._ledger.positions(partitions) if self._commits else {}
        if not offsets:
            return
        try:
            self._consumer.commit(offsets)
        except BusError as error:  # the next commit holds all of it; after a crash it is read again
            log.warning("could not commit: %s", error)
        else:
            self._ledger.committed(offsets)

    def _leave(self) -> None:
        try:
            self._commit()
            self._consumer.close()
        except BusError as error:
            log.warning("could not leave the group properly: %s", error)


def _listed(partitions: Sequence[Partition]) -> str:
    return ", ".join(f"{partition.topic}-{partition.number}" for partition in partitions)

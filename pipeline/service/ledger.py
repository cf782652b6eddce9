"""What this worker owes: the records it was given, and which of them are answered. Thread-safe.

The poll thread assigns, revokes and commits; the event loop begins and settles. A partition that was taken away and
came back is another *term*: what was begun in an earlier one can no longer be settled, since somebody else may have
answered it meanwhile.
"""

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.bus.base import Offsets, Partition, Position
from pipeline.service.answered import Recalled
from pipeline.service.progress import PartitionProgress
from schemas.deadline import Clock

LEASE_S = 5.0
"""Of a membership that was confirmed. The group gives a silent member's partitions away after 6 s, not before."""


class Claim(NamedTuple):
    """The right to answer one record, for as long as its partition stays."""

    partition: Partition
    offset: int
    term: int


@dataclass(slots=True)
class _Tenure:
    """A partition while it is ours. ``progress`` is None until its first record, when nothing was ever committed."""

    term: int
    progress: PartitionProgress | None
    committed: Position | None
    sought: bool = False
    """Whether it is being found out what others have answered of it."""
    parts: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Of records that others have answered in part: the topics on which that lies."""


class Ledger:
    """Progress of every assigned partition."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._lock = threading.Condition()
        self._clock = clock
        self._confirmed_s: float | None = None
        self._tenures: dict[Partition, _Tenure] = {}
        self._terms = 0

    def assign(
        self, partitions: Sequence[Partition], committed: Offsets, *, sought: bool = False
    ) -> Mapping[Partition, int]:
        """Take partitions over from where the group has committed; return their terms.

        ``sought``: ``recall`` will follow.
        """
        with self._lock:
            for partition in partitions:
                self._terms += 1
                position = committed.get(partition)
                progress = None if position is None else PartitionProgress.restore(position.offset, position.metadata)
                self._tenures[partition] = _Tenure(self._terms, progress, position, sought=sought)
            return {partition: self._tenures[partition].term for partition in partitions}

    @property
    def sought(self) -> frozenset[Partition]:
        """Partitions of which nothing may be begun yet."""
        with self._lock:
            return frozenset(partition for partition, tenure in self._tenures.items() if tenure.sought)

    def recall(self, partition: Partition, recalled: Recalled | None, *, term: int) -> None:
        """Note what others have answered (None: that is not known). Of a term that is over: nothing happens."""
        with self._lock:
            tenure = self._tenures.get(partition)
            if tenure is None or tenure.term != term:
                return
            tenure.sought = False
            if recalled is None:
                return
            tenure.parts = recalled.parts
            if recalled.answered:
                tenure.progress = tenure.progress or PartitionProgress(recalled.first)
                tenure.progress.recall(recalled.answered)

    def parts(self, claim: Claim) -> frozenset[str]:
        """Return the topics on which a part of the record's answer lies already."""
        with self._lock:
            tenure = self._tenure(claim)
            return frozenset() if tenure is None else tenure.parts.get(claim.offset, frozenset())

    def confirm(self, at_s: float) -> None:
        """Note that this worker was a member of the group at ``at_s``."""
        with self._lock:
            self._confirmed_s = at_s

    @property
    def joined(self) -> bool:
        """Whether the group has ever told that this worker belongs to it, with partitions or without."""
        with self._lock:
            return self._confirmed_s is not None and math.isfinite(self._confirmed_s)

    @property
    def certain(self) -> bool:
        """Whether the partitions are ours beyond doubt.

        A process that was frozen believes that it owns what others have taken over meanwhile, until it hears of it.
        """
        with self._lock:
            return self._confirmed_s is None or self._clock() - self._confirmed_s < LEASE_S

    @property
    def term(self) -> int:
        """The newest: what is read from now on, until something is assigned, belongs to it or to an earlier one."""
        with self._lock:
            return self._terms

    def begin(self, partition: Partition, offset: int, *, as_of: int) -> Claim | None:
        """Return the claim on a record that was read when ``as_of`` was the newest term, or None.

        None: it is answered or under way already, or its partition is not ours (any more). A record that was read
        before its partition went and came back comes again; to begin it now would jump over those before it.
        """
        with self._lock:
            tenure = self._tenures.get(partition)
            if tenure is None or tenure.term > as_of:
                return None
            if tenure.progress is None:
                tenure.progress = PartitionProgress(offset)
            return Claim(partition, offset, tenure.term) if tenure.progress.begin(offset) else None

    def holds(self, claim: Claim) -> bool:
        """Whether the record is still ours to answer."""
        with self._lock:
            return self._tenure(claim) is not None

    def settle(self, claim: Claim) -> None:
        """Note that the answer is stored. Of a partition that is gone: nothing happens."""
        with self._lock:
            tenure = self._tenure(claim)
            if tenure is not None and tenure.progress is not None:
                tenure.progress.answer(claim.offset)
                self._lock.notify_all()

    def positions(self, partitions: Iterable[Partition] | None = None) -> Offsets:
        """Return what there is to commit: positions that differ from the committed ones."""
        with self._lock:
            wanted = self._tenures if partitions is None else [p for p in partitions if p in self._tenures]
            now = {partition: _position(self._tenures[partition]) for partition in wanted}
            return {p: at for p, at in now.items() if at is not None and at != self._tenures[p].committed}

    def stake(self, claims: Iterable[Claim]) -> tuple[Offsets, frozenset[Claim]]:
        """Return what there will be to commit once those of ``claims`` are settled that still hold, and which do."""
        after: dict[Partition, PartitionProgress] = {}
        held: set[Claim] = set()
        with self._lock:
            for claim in claims:
                tenure = self._tenure(claim)
                if tenure is not None and tenure.progress is not None:
                    if claim.partition not in after:
                        after[claim.partition] = tenure.progress.copy()
                    after[claim.partition].answer(claim.offset)
                    held.add(claim)
        offsets = {p: Position(progress.next_offset, progress.metadata()) for p, progress in after.items()}
        return offsets, frozenset(held)

    def committed(self, offsets: Offsets) -> None:
        """Note that ``offsets`` are committed."""
        with self._lock:
            for partition, position in offsets.items():
                if partition in self._tenures:
                    self._tenures[partition].committed = position

    def wait_until_settled(self, partitions: Sequence[Partition], *, timeout_s: float) -> bool:
        """Wait, off the event loop, until nothing of ``partitions`` is open. False when that took longer."""
        with self._lock:
            return self._lock.wait_for(lambda: self.open(partitions) == 0, timeout=timeout_s)

    def open(self, partitions: Sequence[Partition] | None = None) -> int:
        """Return how many records are begun and not settled."""
        with self._lock:
            tenures = [t for p, t in self._tenures.items() if partitions is None or p in partitions]
            return sum(tenure.progress.open for tenure in tenures if tenure.progress is not None)

    def revoke(self, partitions: Sequence[Partition]) -> None:
        """Let partitions go. Claims on their records are void."""
        with self._lock:
            for partition in partitions:
                self._tenures.pop(partition, None)
            self._lock.notify_all()

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Those that are ours."""
        with self._lock:
            return tuple(self._tenures)

    def _tenure(self, claim: Claim) -> _Tenure | None:
        tenure = self._tenures.get(claim.partition)
        return tenure if tenure is not None and tenure.term == claim.term else None


def _position(tenure: _Tenure) -> Position | None:
    if tenure.progress is None:
        return None
    return Position(tenure.progress.next_offset, tenure.progress.metadata())

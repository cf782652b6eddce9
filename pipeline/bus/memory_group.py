"""A consumer group in memory: who has which partition, and what has been committed."""

import itertools
from collections.abc import Collection, Iterable, Sequence

from pipeline.bus.base import Membership, Partition, Position
from pipeline.bus.errors import StaleMember
from pipeline.bus.sharing import shares


class MemoryGroup:
    """Shares partitions out as the cooperative strategy does: a partition is let go by one before another gets it.

    Not thread-safe: the bus guards it.
    """

    def __init__(self, group_id: str) -> None:
        self.committed: dict[Partition, Position] = {}
        self._id = group_id
        self._names = itertools.count(1)
        self._generation = 0
        self._joined_at: dict[str, int] = {}
        self._topics: dict[str, tuple[str, ...]] = {}
        self._target: dict[str, set[Partition]] = {}
        self._owned: dict[str, set[Partition]] = {}

    def join(self, topics: Sequence[str], partitions: Collection[Partition]) -> str:
        """Add a member and share out anew; return its id."""
        member_id = f"{self._id}-{next(self._names)}"
        self._topics[member_id] = tuple(topics)
        self._owned[member_id] = set()
        self.share_out(partitions)
        return member_id

    def leave(self, member_id: str, partitions: Collection[Partition]) -> None:
        """Take a member out; do nothing when it is out already."""
        if self._topics.pop(member_id, None) is not None:
            for held in (self._owned, self._target, self._joined_at):
                held.pop(member_id, None)
            self.share_out(partitions)

    def share_out(self, partitions: Collection[Partition]) -> None:
        """Give every member its share of ``partitions``, moving as few as possible."""
        self._generation += 1
        self._target = shares(partitions, subscribed=self._topics, owned=self._owned)

    def assign(self, target: dict[str, set[Partition]]) -> None:
        """Share out as a test wants it."""
        self._generation += 1
        self._target = {member: set(target.get(member, ())) for member in self._topics}

    def knows(self, member_id: str) -> bool:
        """Whether the member has neither left nor been thrown out."""
        return member_id in self._topics

    def let_go(self, member_id: str) -> list[Partition]:
        """Return what the member must give up. It stays its own until ``gone``."""
        return sorted(self._owned[member_id] - self._target[member_id])

    def gone(self, member_id: str, partitions: Iterable[Partition]) -> None:
        """Note that the member has given up ``partitions``."""
        if self.knows(member_id):
            self._owned[member_id].difference_update(partitions)

    def take(self, member_id: str) -> list[Partition]:
        """Give the member what is its own now and held by nobody."""
        held = set().union(*self._owned.values())
        new = sorted(self._target[member_id] - held)
        self._owned[member_id].update(new)
        self._joined_at[member_id] = self._generation
        return new

    def membership(self, member_id: str) -> Membership:
        """Return who the member was when it last heard of a rebalance."""
        return Membership(self._id, self._joined_at.get(member_id, -1), member_id)

    def check(self, member: Membership) -> None:
        """Raise ``StaleMember`` when ``member`` may not commit."""
        if self._joined_at.get(member.member_id) != member.generation:
            raise StaleMember(f"{member.member_id} is not a member of {self._id} as of now")

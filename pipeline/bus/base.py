"""What the service needs of a message bus. ``kafka.py`` is the real one; ``memory.py`` is for tests of the policy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pipeline.bus.errors import BusError

Headers = tuple[tuple[str, bytes], ...]
"""In the order they came; names may repeat."""


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """One message as it lies on the bus. Everything in it is hostile until checked. ``timestamp_ms``: since 1970.

    ``damaged``: its bytes could not be read, so nothing is known of it but where it lies. ``came_after_s``: when
    (``time.monotonic``) its partition was seen to end before it; None when that is not known.
    """

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    damaged: bool = False
    came_after_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to send. The bus chooses the partition by ``key``."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Position(NamedTuple):
    """How far a group has come in a partition: the offset of the next record to read, and the group's own note."""

    offset: int
    metadata: str = ""


Offsets = Mapping[Partition, Position]
"""What a group commits."""


class Membership(NamedTuple):
    """Who commits: a member of a group as of one rebalance. A later rebalance makes it stale."""

    group_id: str
    generation: int
    member_id: str


Acknowledged = Callable[[Exception | None], None]
"""Called once from a thread of the bus: with None when the message is safely stored, else with why it is not."""


class Rebalancing(Protocol):
    """Hears of partitions that come and go while ``poll`` (or ``close``) is under way, and never beside another call.

    Perhaps on another thread than the one that polls, which waits meanwhile. The consumer may be used from here,
    ``poll`` and ``close`` excepted. What is raised here comes out of ``poll`` as a ``BusError``.
    """

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Be told that records of ``partitions`` will come, besides those of the partitions it has already."""
        ...

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Be told that they will not come any more. Offsets committed before this returns still count."""
        ...

    def lost(self, partitions: Sequence[Partition]) -> None:
        """Be told that they are somebody else's already: nothing can be committed for them."""
        ...


class Consumer(Protocol):
    """A member of a consumer group. Every call comes from one thread, ``wake`` excepted."""

    def subscribe(self, topics: Sequence[str], rebalancing: Rebalancing) -> None:
        """Join the group."""
        ...

    def poll(self, timeout_s: float) -> Sequence[Record]:
        """Return what has come, at once or after ``timeout_s`` at most. Keeps the membership alive.

        Raises ``BusError``: retryable while the broker is away, not retryable when the group refuses this member.
        """
        ...

    def pause(self, partitions: Sequence[Partition]) -> None:
        """Let nothing of ``partitions`` come until they are resumed; the membership stays."""
        ...

    def resume(self, partitions: Sequence[Partition]) -> None:
        """Let records of ``partitions`` come again, from where they stopped."""
        ...

    def commit(self, offsets: Offsets) -> None:
        """Store what has been answered. Raises ``StaleMember`` when others own the partitions, else ``BusError``."""
        ...

    def committed(self, partitions: Sequence[Partition]) -> Offsets:
        """Return what the group has committed. Partitions without a commit are left out. Raises ``BusError``."""
        ...

    def membership(self) -> Membership:
        """Return who this member is just now, for a transaction that commits its offsets. Thread-safe."""
        ...

    @property
    def confirmed_s(self) -> float:
        """When (``time.monotonic``) the question was sent that the group last answered with: you belong to us.

        Minus infinity until it has taken this member in for the first time. As of the last ``poll``.
        """
        ...

    def lag(self) -> Mapping[Partition, int]:
        """Return how many records of each assigned partition have not come yet. Asks the broker: ``BusError``."""
        ...

    def wake(self) -> None:
        """Make a ``poll`` under way return soon. Thread-safe."""
        ...

    def close(self) -> None:
        """Leave the group at once, so that others take over without a time-out. Safe to call twice."""
        ...


class Reader(Protocol):
    """Looks into topics without belonging to a group. Not thread-safe. Every call but ``close`` raises ``BusError``."""

    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return those of ``topic``."""
        ...

    def bounds(self, partitions: Sequence[Partition]) -> Mapping[Partition, range]:
        """Return the offsets from the oldest record to after the newest that is committed."""
        ...

    def offsets_at(self, partitions: Sequence[Partition], *, timestamp_ms: int) -> Mapping[Partition, int]:
        """Return the offset of the first record from ``timestamp_ms`` on. Partitions without one are left out."""
        ...

    def read(self, spans: Mapping[Partition, range], *, within_s: float) -> Iterator[Record]:
        """Yield the committed records of ``spans``, which lie within ``bounds``. ``BusError`` when time is up."""
        ...

    def close(self) -> None:
        """Disconnect. Safe to call twice."""
        ...


class Producer(Protocol):
    """Sends messages. Thread-safe."""

    def prepare(self, topics: Sequence[str]) -> Mapping[str, BusError]:
        """Find out where messages to ``topics`` go, so that the first ones need not wait for it.

        Return what is wrong with those that nothing can be sent to just now: a topic that is missing may be created.
        """
        ...

    def send(self, message: Outgoing, acknowledged: Acknowledged | None = None) -> None:
        """Queue ``message``. Raises ``BusError`` when the queue is full or the message too large."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was queued is stored. False when that took longer."""
        ...

    def close(self) -> None:
        """Flush and end. Safe to call twice."""
        ...


class TransactionalProducer(Producer, Protocol):
    """Makes messages and the offsets they answer visible together or not at all."""

    def begin(self) -> None:
        """Begin a transaction. Raises ``Fenced``, ``BusError``."""
        ...

    def commit(self, offsets: Offsets, *, member: Membership, timeout_s: float) -> None:
        """Make it visible, ``offsets`` committed with it. After an error nothing of it is visible: ``abort``.

        Raises ``Fenced`` when another producer took over, ``StaleMember`` when the group has moved on without
        ``member``, else ``BusError``.
        """
        ...

    def abort(self) -> None:
        """Undo it."""
        ...


class Bus(Protocol):
    """Where consumers and producers come from. Each of these waits for the broker and raises ``BusError`` without."""

    def consumer(self, *, group_id: str, client_id: str, from_end: bool = False) -> Consumer:
        """Return a new member of a group, which has not joined yet.

        Where the group has not committed, it begins with the oldest record, or after the newest when ``from_end``.
        """
        ...

    def reader(self, *, client_id: str) -> Reader:
        """Return a new reader."""
        ...

    def producer(self, *, client_id: str) -> Producer:
        """Return a new producer."""
        ...

    def transactional_producer(self, *, transactional_id: str) -> TransactionalProducer:
        """Return a new producer; an older one with the same id is fenced and its open transaction aborted."""
        ...

"""What is stored about records already, though their offsets were not committed.

A worker that is killed has answered more than it has committed. Whoever takes its partitions over looks at the ends of
the topics that answers go to: every message there names the record that it comes from, its *origin*. All partitions of
these topics are looked at, so that nothing depends on how producers key their jobs.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pipeline.bus.base import Headers, Outgoing, Partition, Reader, Record
from pipeline.bus.errors import BusError
from pipeline.bus.headers import header
from pipeline.bus.topics import Topics

log = logging.getLogger(__name__)

ORIGIN = "hs_origin"

SEARCH_S = 1.0
"""For all of a search. Then the partitions are begun with what was found: a duplicate is better than a loss."""

TAIL_RECORDS = 4_000
"""Looked at of each topic: some 8 s, a session timeout and its rebalance, of 500 answers a second."""

PROBE_RECORDS = 10
"""Offsets at which the oldest unanswered record is looked for: some may be holes."""

MARGIN_MS = 2_000
"""By which the clocks of brokers may differ: the jobs' one dates the record, the results' one its answer."""


class Origin(NamedTuple):
    """The record that a message comes from."""

    partition: Partition
    offset: int


def with_origin(message: Outgoing, record: Record) -> Outgoing:
    """Return ``message`` as one that comes from ``record``."""
    topic, number = record.partition
    return replace(message, headers=(*message.headers, (ORIGIN, f"{topic}/{number}/{record.offset}".encode())))


def origin_of(headers: Headers) -> Origin | None:
    """Return what a message says it comes from; None when it does not, or not properly."""
    match (header(headers, ORIGIN) or "").split("/"):
        case [topic, number, offset] if number.isdecimal() and offset.isdecimal():
            return Origin(Partition(topic, int(number)), int(offset))
    return None


@dataclass(slots=True)
class Recalled:
    """What is stored about the records of one partition, from offset ``first`` on.

    ``answered``: those with a result, which is stored after everything else. ``parts``: of the others, the topics on
    which something lies already and must not be sent again.
    """

    first: int
    answered: set[int] = field(default_factory=set)
    parts: dict[int, frozenset[str]] = field(default_factory=dict)


def recalled(first: int, messages: Iterable[tuple[int, str]], *, results: str) -> Recalled:
    """Return what messages, as (offset of the origin, topic), tell about a partition. Pure."""
    found = Recalled(first)
    topics: defaultdict[int, set[str]] = defaultdict(set)
    for offset, topic in messages:
        if offset >= first:
            topics[offset].add(topic)
    found.answered = {offset for offset, seen in topics.items() if results in seen}
    found.parts = {offset: frozenset(seen) for offset, seen in topics.items() if results not in seen}
    return found


class AnsweredSearch:
    """Looks for answers. One thread at a time."""

    def __init__(self, reader: Reader, topics: Topics, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._topics = topics
        self._clock = clock
        self.incomplete = 0
        """Searches that were given up: duplicates may have followed."""

    def find(self, starts: Mapping[Partition, int | None]) -> Mapping[Partition, Recalled]:
        """Return what is stored about the records of partitions, from where their group goes on, if it knows.

        Takes ``SEARCH_S`` at most; what was found by then is returned.
        """
        ends_s = self._clock() + SEARCH_S
        unread: dict[Partition, range] = {}
        messages: defaultdict[Partition, list[tuple[int, str]]] = defaultdict(list)
        try:
            unread = self._unread(starts)
            if any(unread.values()):
                since_ms = self._oldest_ms(unread, ends_s=ends_s)
                for record in self._tails(since_ms=since_ms, ends_s=ends_s):
                    origin = origin_of(record.headers)
                    if origin is not None:
                        messages[origin.partition].append((origin.offset, record.partition.topic))
        except BusError as error:
            self.incomplete += 1
            log.warning("some records may be answered twice: %s", error)
        results = self._topics.results
        return {p: recalled(span.start, messages[p], results=results) for p, span in unread.items()}

    def close(self) -> None:
        """Disconnect."""
        self._reader.close()

    def _unread(self, starts: Mapping[Partition, int | None]) -> dict[Partition, range]:
        bounds = self._reader.bounds(list(starts))
        return {p: range(max(bounds[p].start, first or 0), bounds[p].stop) for p, first in starts.items()}

    def _oldest_ms(self, unread: Mapping[Partition, range], *, ends_s: float) -> int:
        """Return a time before all answers to ``unread``; 0 when these cannot be read."""
        probes = {partition: span[:PROBE_RECORDS] for partition, span in unread.items() if span}
        try:
            oldest_ms = min((record.timestamp_ms for record in self._read(probes, ends_s=ends_s)), default=0)
        except BusError as error:  # a record that is damaged, say; answers can be read all the same
            log.warning("could not date the oldest record: %s", error)
            oldest_ms = 0
        return max(0, oldest_ms - MARGIN_MS)

    def _tails(self, *, since_ms: int, ends_s: float) -> Iterator[Record]:
        """Yield the newest records of the topics that answers go to."""
        for topic in self._topics.written:
            yield from self._read(self._tail(topic, since_ms=since_ms), ends_s=ends_s)

    def _tail(self, topic: str, *, since_ms: int) -> dict[Partition, range]:
        partitions = self._reader.partitions(topic)
        bounds = self._reader.bounds(partitions)
        since = self._reader.offsets_at(partitions, timestamp_ms=since_ms)
        most = TAIL_RECORDS // max(1, len(partitions))
        return {
            p: range(max(since.get(p, bound.stop), bound.stop - most, bound.start), bound.stop)
            for p, bound in bounds.items()
        }

    def _read(self, spans: Mapping[Partition, range], *, ends_s: float) -> Iterator[Record]:
        return self._reader.read(spans, within_s=max(0.0, ends_s - self._clock()))

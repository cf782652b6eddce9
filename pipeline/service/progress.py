"""How far a partition has been answered. Pure and synchronous.

Jobs end in any order; Kafka keeps one number per partition, the next offset to read. So the number that may be
committed is the *low watermark*: everything before it has been answered. What has been answered beyond it is kept with
the commit as metadata, so that the next owner of the partition does not answer it again.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_METADATA_CHARS = 3_500
"""Kafka's default limit is 4,096 bytes. What does not fit is answered twice after a crash, never lost."""


@dataclass(slots=True)
class PartitionProgress:
    """Records of one partition on their way, from the first that was read. Mutated by every method but ``metadata``."""

    next_offset: int
    """The low watermark: the first offset that has not been answered."""
    _open: set[int] = field(default_factory=set)
    _answered: set[int] = field(default_factory=set)
    _delivered: int = -1
    """The highest offset that has come. Holes below it (compaction, transaction markers) need no answer."""

    @property
    def open(self) -> int:
        """Records that were begun and not answered."""
        return len(self._open)

    def begin(self, offset: int) -> bool:
        """Note that a record has come. False when it is answered, or under way, already: once is enough."""
        self._delivered = max(self._delivered, offset)
        known = offset < self.next_offset or offset in self._answered or offset in self._open
        if not known:
            self._open.add(offset)
        self._advance()
        return not known

    def copy(self) -> "PartitionProgress":
        """Return one that goes its own way."""
        return PartitionProgress(self.next_offset, set(self._open), set(self._answered), self._delivered)

    def recall(self, answered: Iterable[int]) -> None:
        """Note what is known to be answered, though no commit told of it."""
        self._answered.update(offset for offset in answered if offset >= self.next_offset and offset not in self._open)

    def answer(self, offset: int) -> bool:
        """Note that a record is answered for good; return whether the low watermark has moved.

        Raises ``KeyError`` for one that was not begun, or was answered before.
        """
        self._open.remove(offset)
        self._answered.add(offset)
        before = self.next_offset
        self._advance()
        return self.next_offset > before

    def _advance(self) -> None:
        if self.next_offset in self._open:
            return  # the lowest is still open: the usual case, and the only one that must cost nothing
        self.next_offset = max(self.next_offset, min(self._open, default=self._delivered + 1))
        self._answered = {answered for answered in self._answered if answered >= self.next_offset}

    def metadata(self) -> str:
        """Return what was answered beyond the low watermark, as runs relative to it: ``[[2, 5], [9, 9]]``."""
        runs = [[first - self.next_offset, last - self.next_offset] for first, last in _runs(self._answered)]
        text = json.dumps(runs, separators=(",", ":"))
        while len(text) > MAX_METADATA_CHARS:
            runs = runs[: len(runs) // 2]
            text = json.dumps(runs, separators=(",", ":"))
        return text

    @classmethod
    def restore(cls, next_offset: int, metadata: str) -> "PartitionProgress":
        """Return the progress that a commit tells of. Metadata of somebody else counts as none."""
        progress = cls(next_offset)
        for first, last in _parsed(metadata):
            progress._answered.update(range(next_offset + first, next_offset + last + 1))
        return progress


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if runs and offset == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs


def _parsed(metadata: str) -> list[tuple[int, int]]:
    try:
        runs = [(int(first), int(last)) for first, last in json.loads(metadata or "[]")]
    except (ValueError, TypeError):
        return []
    sane = all(0 <= first <= last < first + 100_000 for first, last in runs)
    return runs if sane else []

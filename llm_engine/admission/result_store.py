"""Answers kept for those who ask again. Pure."""

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")

ENTRY_BYTES = 200
"""What an entry costs beside its value: key, links, objects."""


class ResultStore(Generic[V]):
    """The most recently used values, bounded in number and in bytes."""

    def __init__(self, *, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> V | None:
        """Return the value of ``key``, and count it as just used."""
        if (entry := self._entries.get(key)) is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: str, value: V, *, value_bytes: int) -> None:
        """Keep ``value``, and drop what was used longest ago. One too big for the store is not kept."""
        self._drop(key)
        entry_bytes = value_bytes + ENTRY_BYTES
        if entry_bytes > self._max_bytes:
            return
        self._entries[key] = (value, entry_bytes)
        self.used_bytes += entry_bytes
        while len(self._entries) > self._max_entries or self.used_bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self.used_bytes -= entry[1]

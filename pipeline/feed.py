"""Things on their way from one task to several others at once: frames from the decoder, words from the transcriber."""

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Feed(Generic[T]):
    """An append-only list that any number of readers may follow while it grows. One event loop.

    The writer sets the pace and never waits for a reader: a clip has at most a handful of frames, or pieces of speech.
    """

    def __init__(self) -> None:
        self._items: list[T] = []
        self._ended = False
        self._changed = asyncio.Event()

    @property
    def items(self) -> tuple[T, ...]:
        """What has arrived so far."""
        return tuple(self._items)

    def append(self, item: T) -> None:
        """Add one and wake the readers."""
        self._items.append(item)
        self._wake()

    def end(self) -> None:
        """Say that no more come. Readers finish after the last one."""
        self._ended = True
        self._wake()

    async def follow(self) -> AsyncIterator[T]:
        """Yield every item from the first on, waiting for those to come."""
        position = 0
        async for items in self.growing():
            while position < len(items):
                yield items[position]
                position += 1

    async def growing(self) -> AsyncIterator[tuple[T, ...]]:
        """Yield all there is each time it has grown; a slow reader misses steps and never the last one."""
        known = 0
        while True:
            if known < len(self._items):
                known = len(self._items)
                yield self.items
            elif self._ended:
                return
            else:
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

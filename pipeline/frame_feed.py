"""Frames on their way from the decoder to several stages at once."""

import asyncio
from collections.abc import AsyncIterator

from schemas.media import Frame


class FrameFeed:
    """An append-only list that any number of readers may follow while it grows. One event loop.

    The decoder sets the pace and never waits for a reader: a clip has at most a handful of sampled frames.
    """

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._ended = False
        self._changed = asyncio.Event()

    @property
    def frames(self) -> tuple[Frame, ...]:
        """What has arrived so far."""
        return tuple(self._frames)

    def append(self, frame: Frame) -> None:
        """Add one frame and wake the readers."""
        self._frames.append(frame)
        self._wake()

    def end(self) -> None:
        """Say that no more frames come. Readers finish after the last one."""
        self._ended = True
        self._wake()

    async def follow(self) -> AsyncIterator[Frame]:
        """Yield every frame from the first on, waiting for those to come."""
        position = 0
        while True:
            while position < len(self._frames):
                yield self._frames[position]
                position += 1
            if self._ended:
                return
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

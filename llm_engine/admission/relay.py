"""One stream, drained by a task of its own, and those who listen to it.

Nobody who listens waits for the source longer than they want to, and a slow listener holds up neither the source nor
the others: the outputs of an engine hold the whole text so far, so that only the latest one matters.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, Literal, TypeVar

from llm_engine.admission.background import Background
from llm_engine.admission.streams import closing
from schemas.deadline import Deadline

T = TypeVar("T")

Cut = Literal["abort", "deadline"]


class Relay(Generic[T]):
    """Begins to drain ``source`` at once. Belongs to one event loop."""

    def __init__(self, source: AsyncIterator[T], *, background: Background) -> None:
        self.latest: T | None = None
        self.count = 0
        self.listeners: dict[Listener[T], None] = {}  # a set in order: who came first is woken first
        self._task = background.start(self._drain(source))
        self._task.add_done_callback(self._wake_all)

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self._task.done()

    @property
    def ended(self) -> bool:
        """Whether the source came to its end, or broke, without being stopped."""
        return self._task.done() and not self._task.cancelled()

    def check(self) -> None:
        """Raise what the source raised, if it did. Only when done."""
        if self.ended:
            self._task.result()

    def stop(self) -> None:
        """Close the source, without waiting until it is."""
        self._task.cancel()

    async def _drain(self, source: AsyncIterator[T]) -> None:
        async with closing(source) as stream:
            async for value in stream:
                self.latest = value
                self.count += 1
                self._wake_all()

    def _wake_all(self, _: object = None) -> None:
        for listener in self.listeners:
            listener.wake()


class Listener(Generic[T]):
    """One who follows a relay until ``deadline``. Close it with ``close()``.

    ``cut`` says why it was ended before the source was; None otherwise.
    """

    def __init__(self, relay: Relay[T], *, deadline: Deadline) -> None:
        self.cut: Cut | None = None
        self._relay = relay
        self._heard = 0
        self._woken: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        never = deadline.at_s == float("inf")
        self._timer = None if never else self._loop.call_later(deadline.remaining(), self.interrupt, "deadline")
        relay.listeners[self] = None

    async def next(self) -> T | None:
        """Return the latest value once it is a new one; None when no more will come. Raises what the source raised."""
        while self.cut is None or self._relay.ended:
            if self._heard < self._relay.count:
                self._heard = self._relay.count
                return self._relay.latest
            if self._relay.done:
                self._relay.check()
                return None
            self._woken = self._loop.create_future()
            await self._woken
        return None

    def interrupt(self, cut: Cut) -> None:
        """End listening now. The first interruption counts."""
        if self.cut is None:
            self.cut = cut
            self.wake()

    def wake(self) -> None:
        """Look again."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def close(self) -> None:
        """Stop following. Safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
        self._relay.listeners.pop(self, None)

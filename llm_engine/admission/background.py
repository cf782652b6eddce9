"""Calls that may hang, kept at arm's length: nobody waits for one longer than to their deadline."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from schemas.deadline import Deadline
from schemas.errors import ErrorCode, StageError

T = TypeVar("T")

FAREWELL_S = 1.0
"""How long ``close`` waits for tasks that were told to end."""


class Background:
    """Owns tasks that outlive who started them. Belongs to one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``work`` in a task of its own, which ends with it or with ``close``."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def answer(self, work: Coroutine[Any, Any, T], *, deadline: Deadline) -> T:
        """Return what ``work`` returns, or raise what it raises.

        Raises ``TimeoutError`` at the deadline and ``ENGINE_FAILED`` on ``close``. Then, and when the caller is
        cancelled, ``work`` is cancelled too, but not waited for.
        """
        task = self.start(work)
        try:
            never = deadline.at_s == float("inf")
            await asyncio.wait([task], timeout=None if never else deadline.remaining())
        finally:
            task.cancel()  # does nothing to a finished one
        if not task.done():
            raise TimeoutError
        if task.cancelled():
            raise StageError(ErrorCode.ENGINE_FAILED, "the engine was closed", retryable=True)
        return task.result()

    async def close(self) -> None:
        """Cancel everything, and wait a moment for it to end."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FAREWELL_S)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as seen: who waited may be gone

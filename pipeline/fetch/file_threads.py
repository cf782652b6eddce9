"""Work on files, beside the event loop: a disk that is slow, or a mount that hangs, must not stop everybody."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from pipeline.fetch.open_clip import Stopped

T = TypeVar("T")


class FileThreads:
    """A few threads. Belongs to one event loop; ``close`` it in the end."""

    def __init__(self, *, threads: int = 4) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="fetch-files")

    async def run(self, work: Callable[[Stopped], T], *, undo: Callable[[T], object] | None = None) -> T:
        """Return what ``work`` returns.

        A cancellation tells ``work`` to stop and takes effect once it has, since it uses files that the caller is about
        to close; what it returned all the same is given to ``undo``.
        """
        stop = threading.Event()
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, stop.is_set)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            stop.set()
            await _settled(future)
            if undo is not None and not future.cancelled() and future.exception() is None:
                undo(future.result())
            raise

    def close(self, *, wait: bool) -> None:
        """Let the threads end, and ``wait`` until they have."""
        self._pool.shutdown(wait=wait, cancel_futures=True)


async def _settled(future: asyncio.Future[T]) -> None:
    """Wait for the end of ``future``, through further cancellations: one is under way and will be heard."""
    while not future.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({future})

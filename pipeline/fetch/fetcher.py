"""The door: a job's source in, a local file out.

async with open_fetcher(settings) as fetcher:
    async with fetcher.fetch(job.source, deadline=deadline) as path:
        await analyzer.analyze(job, path, deadline=deadline)
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pipeline.fetch.cache import ClipCache
from pipeline.fetch.errors import FetchError, failed, not_as_promised, refused, timed_out, too_large
from pipeline.fetch.file_threads import FileThreads
from pipeline.fetch.landing import Landing
from pipeline.fetch.limits import FetchLimits
from pipeline.fetch.local_path import below_root, parse_file_uri
from pipeline.fetch.memory import MemoryBudget
from pipeline.fetch.object_store import ObjectLinks
from pipeline.fetch.open_clip import OpenClip, Stopped, check_hash, check_size, open_below
from pipeline.fetch.web import Body, WebClient
from schemas.deadline import Deadline
from schemas.job import Source

_PATIENCE_S: Final = 2.0
"""For threads that hang on a dead mount, when all others have ended."""

_Ask = Callable[[str], AbstractAsyncContextManager[Body]]
"""Asks for a URI and gives the body of the answer."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Flight:
    """One source on its way here, and how many wait for it or use it."""

    task: "asyncio.Task[OpenClip]"
    users: int = 0


class Fetcher:
    """Brings clips here. Belongs to one event loop; an async context manager that owns what it is given.

    Jobs that ask for the same source while it is on its way share one fetch, which ends with the last of them.
    ``roots``: the folders below which ``file:`` may read; none refuses ``file:``.
    """

    def __init__(
        self,
        *,
        roots: Sequence[bytes],
        web: WebClient,
        store: WebClient,
        links: ObjectLinks,
        cache: ClipCache,
        limits: FetchLimits,
    ) -> None:
        self._roots = tuple(roots)
        self._web = web
        self._store = store
        self._links = links
        self._cache = cache
        self._limits = limits
        self._memory = MemoryBudget(limits.memory_bytes)
        self._threads = FileThreads()
        self._mount_threads = FileThreads()  # apart: a mount that hangs must not hold up what comes over the network
        self._flights: dict[Source, _Flight] = {}
        self._tasks: set[asyncio.Task[OpenClip]] = set()

    async def __aenter__(self) -> Self:
        await self._threads.run(lambda _: self._cache.open())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_PATIENCE_S)
        if self._tasks:
            _log.warning("%d fetches hang on a disk and are left alone", len(self._tasks))
        for threads in (self._threads, self._mount_threads):
            threads.close(wait=not self._tasks)
        self._cache.close()

    @asynccontextmanager
    async def fetch(self, source: Source, *, deadline: Deadline) -> AsyncIterator[Path]:
        """Yield a path that any process of this user can read until the context ends.

        Nobody can change what is behind it, but for a ``file:`` source, whose owner can: then leaving the context
        raises FETCH_FAILED (retryable), and what was found must not be published.

        Raises ``MediaError``: FETCH_REFUSED, NOT_FOUND, TOO_LARGE, CHECKSUM_MISMATCH, BAD_NAME, NOT_A_REGULAR_FILE
        (permanent), FETCH_TIMED_OUT (retryable), FETCH_FAILED, NOT_READABLE (see ``retryable``).
        """
        flight = self._board(source, deadline)
        try:
            clip = await _landed(flight, within_s=min(deadline.remaining(), self._limits.timeout_s))
            yield clip.path
            clip.require_unchanged()
        finally:
            self._leave(source, flight)

    def _board(self, source: Source, deadline: Deadline) -> _Flight:
        if deadline.expired:
            raise timed_out()
        flight = self._flights.get(source)
        if flight is None or flight.task.done():
            flight = self._flights[source] = _Flight(asyncio.create_task(self._bring_in_time(source)))
            self._tasks.add(flight.task)
            flight.task.add_done_callback(partial(self._arrived, source, flight))
        flight.users += 1
        return flight

    def _arrived(self, source: Source, flight: _Flight, task: "asyncio.Task[OpenClip]") -> None:
        self._tasks.discard(task)
        self._forget(source, flight)  # who asks from now on gets what lies there then
        if flight.users == 0:
            _discard(task)

    def _leave(self, source: Source, flight: _Flight) -> None:
        flight.users -= 1
        if flight.users:
            return
        if flight.task.done():
            _discard(flight.task)
        else:
            self._forget(source, flight)
            flight.task.cancel()

    def _forget(self, source: Source, flight: _Flight) -> None:
        if self._flights.get(source) is flight:
            del self._flights[source]

    async def _bring_in_time(self, source: Source) -> OpenClip:
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                return await self._bring(source)
        except TimeoutError:
            raise timed_out() from None
        except OSError as error:
            _log.warning("a clip cannot be stored", exc_info=True)
            raise failed("the clip cannot be stored", retryable=True) from error

    async def _bring(self, source: Source) -> OpenClip:
        if source.size_bytes is not None and source.size_bytes > self._limits.max_bytes:
            raise too_large(self._limits.max_bytes)
        match source.uri.partition(":")[0].lower():
            case "file":
                return await self._mount_threads.run(partial(self._open_local, source), undo=OpenClip.close)
            case "http" | "https":
                self._web.check(source.uri)  # that the clip is here already is no reason to forgive its link
                return await self._cached_or(source, self._web.get)
            case "s3":
                self._links.check(source.uri)
                return await self._cached_or(source, self._object)
            case _:
                raise refused("neither a file:, http:, https: nor s3: reference")

    def _open_local(self, source: Source, stopped: Stopped) -> OpenClip:
        root, names = below_root(parse_file_uri(source.uri), self._roots)
        clip = open_below(root, names)
        try:
            check_size(source, clip.size_bytes, max_bytes=self._limits.max_bytes)
            if source.sha256 is not None:
                check_hash(source, clip.sha256(stopped))
        except BaseException:
            clip.close()
            raise
        return clip

    @asynccontextmanager
    async def _object(self, uri: str) -> AsyncIterator[Body]:
        async with self._store.get(await self._links.sign(uri)) as body:
            yield body

    async def _cached_or(self, source: Source, ask: _Ask) -> OpenClip:
        if source.sha256 is not None:
            clip = await self._threads.run(partial(self._cache.find, source.sha256), undo=_close)
            if clip is not None:
                return self._sized(source, clip)
        async with ask(source.uri) as body:
            if body.length_bytes is not None:  # saves reading; what counts is what comes
                check_size(source, body.length_bytes, max_bytes=self._limits.max_bytes)
            return await self._land(source, body)

    async def _land(self, source: Source, body: Body) -> OpenClip:
        most_bytes = self._limits.max_bytes if source.size_bytes is None else source.size_bytes
        landing = await self._threads.run(lambda _: Landing(self._cache, self._memory), undo=Landing.close)
        with landing:
            async with aclosing(body.pieces()) as pieces:
                async for piece in pieces:
                    if landing.size_bytes + len(piece) > most_bytes:
                        raise self._excess(source)
                    await self._threads.run(partial(_append, landing, piece))
            check_size(source, landing.size_bytes, max_bytes=self._limits.max_bytes)
            check_hash(source, landing.sha256)
            keep = source.sha256 is not None
            return await self._threads.run(lambda _: landing.finish(keep=keep), undo=_close)

    def _sized(self, source: Source, clip: OpenClip) -> OpenClip:
        try:
            check_size(source, clip.size_bytes, max_bytes=self._limits.max_bytes)
        except FetchError:
            clip.close()
            raise
        return clip

    def _excess(self, source: Source) -> FetchError:
        if source.size_bytes is None:
            return too_large(self._limits.max_bytes)
        return not_as_promised("the clip goes on after the size that the job names")


async def _landed(flight: _Flight, *, within_s: float) -> OpenClip:
    """Wait for ``flight``. Giving up leaves it alone: others may wait for it, too."""
    await asyncio.wait({flight.task}, timeout=within_s)
    if not flight.task.done():
        raise timed_out()
    if flight.task.cancelled():
        raise failed("the service is ending", retryable=True)
    return flight.task.result()


def _append(landing: Landing, piece: bytes, _: Stopped) -> None:
    landing.append(piece)


def _close(clip: OpenClip | None) -> None:
    if clip is not None:
        clip.close()


def _discard(task: "asyncio.Task[OpenClip]") -> None:
    """Close what a task brought, if it brought something."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()

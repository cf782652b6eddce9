"""Decoding untrusted files in warm processes: a file that hangs, crashes or eats memory takes one clip with it.

    async with DecodePool() as pool, pool.session(path, deadline=deadline) as session:
        media = await session.probe()
        async for frame in session.frames(plan_frames(media, count=4, max_side_px=640)):
            ...
        clip = await session.audio(max_s=60)

A session holds one process. To decode pictures and sound of a file side by side, open two sessions.
"""

import asyncio
import heapq
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from types import TracebackType
from typing import Self, TypeVar

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded, ErrorCode, HalfsecondError, MediaError
from schemas.media import AudioClip, Frame, MediaWarning, ProbedMedia, SamplingPlan
from stages.media.convert import to_clip, to_frame, to_probed, to_warnings
from stages.media.facts import Damage, MediaFacts, Picture, Sound
from stages.media.limits import MediaLimits
from stages.media.protocol import Close, Command, Done, Failed, Listen, Open, Pictures, Probe, Reply
from stages.media.worker import DecoderProcess

_SETTLE_S = 0.5
"""How long a process may take to come back from work that nobody waits for any more, before it counts as hung."""

_START_ATTEMPTS = 3

FilePath = str | bytes | os.PathLike[str]

A = TypeVar("A")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class DecodeSession:
    """One file in one decoder process. One thing at a time; made by ``DecodePool.session``.

    Everything raises ``MediaError`` when the file cannot be analysed (also DECODER_TIMED_OUT, DECODER_CRASHED,
    DECODER_OUT_OF_MEMORY) and ``DeadlineExceeded`` when the session's deadline has passed.
    ``packets_damaged`` and ``warnings`` tell, after ``frames``, what decoding the pictures met.
    """

    def __init__(self, process: DecoderProcess, limits: MediaLimits, deadline: Deadline) -> None:
        self._process = process
        self._limits = limits
        self._deadline = deadline
        self.packets_damaged = 0
        self.warnings: tuple[MediaWarning, ...] = ()
        self.unanswered: int | None = None
        """Sequence number of a request whose last reply has not come yet."""
        self.broken = False
        """Whether the process must not be used again."""

    async def open(self, path: bytes) -> None:
        """Have the process open a file."""
        await self._ask(Open(path.decode("latin-1")), Done)

    async def probe(self) -> ProbedMedia:
        """Read the whole file's packets, decode one picture, and return the facts."""
        return self._trusting(to_probed, await self._ask(Probe(), MediaFacts))

    async def frames(self, plan: SamplingPlan) -> AsyncIterator[Frame]:
        """Decode pictures, each yielded as soon as it is there. There may be fewer than planned."""
        key_only = plan.strategy == "keyframes"
        self._send(Pictures(times_s=plan.times_s, key_only=key_only, max_side_px=plan.max_side_px))
        index = 0
        while isinstance(reply := await self._receive(), Picture):
            yield self._trusting(partial(to_frame, index=index), reply)
            index += 1
        damage = self._last(reply, Damage)
        self.packets_damaged = damage.packets_damaged
        self.warnings = to_warnings(damage.notices)

    async def audio(self, *, max_s: float) -> AudioClip:
        """Decode the first ``max_s`` seconds of sound. No samples, and perhaps a warning, where there is none."""
        return self._trusting(to_clip, await self._ask(Listen(max_s), Sound))

    async def _ask(self, command: Command, kind: type[R]) -> R:
        self._send(command)
        return self._last(await self._receive(), kind)

    def _send(self, command: Command) -> None:
        if self.unanswered is not None:
            raise RuntimeError("a session does one thing at a time")
        self.unanswered = self._process.ask(command, time.monotonic() + self._deadline.remaining())

    async def _receive(self) -> Reply:
        assert self.unanswered is not None  # noqa: S101  (set by _send)
        try:
            async with asyncio.timeout(min(self._deadline.remaining(), self._limits.job_timeout_s)):
                reply = await self._process.receive(self.unanswered)
        except TimeoutError:
            if self._deadline.expired:  # whether the process hangs will be seen when it is settled
                raise DeadlineExceeded from None
            self.broken = True
            raise MediaError(ErrorCode.DECODER_TIMED_OUT, "the decoder hung") from None
        except MediaError:
            self.broken = True
            raise
        if isinstance(reply, Failed):
            self._fail(reply)
        return reply

    def _fail(self, reply: Failed) -> None:
        self.unanswered = None
        self.broken = reply.code is ErrorCode.DECODER_OUT_OF_MEMORY
        if reply.code is ErrorCode.DEADLINE_EXCEEDED:
            raise DeadlineExceeded
        raise MediaError(reply.code, reply.message, retryable=reply.retryable)

    def _last(self, reply: Reply, kind: type[R]) -> R:
        """Take a reply for the last to its request."""
        self.unanswered = None
        if not isinstance(reply, kind):
            raise self._nonsense()
        return reply

    def _trusting(self, convert: Callable[[A], R], reply: A) -> R:
        try:
            return convert(reply)
        except ValueError:
            raise self._nonsense() from None

    def _nonsense(self) -> MediaError:
        self.broken = True
        return MediaError(ErrorCode.DECODER_CRASHED, "the decoder talks nonsense")


class DecodePool:
    """A fixed number of decoder processes, lent to the session whose deadline is the earliest.

    A process that died, hung or ran out of memory is replaced in the background; each is replaced after
    ``uses_per_process`` files, in case a decoder leaks. Use as an async context manager: entering starts them.
    """

    def __init__(self, *, workers: int = 2, limits: MediaLimits | None = None, uses_per_process: int = 500) -> None:
        self._size = workers
        self._limits = limits or MediaLimits()
        self._uses_per_process = uses_per_process
        self._processes: set[DecoderProcess] = set()
        self._idle: list[DecoderProcess] = []
        self._successor: DecoderProcess | None = None
        self._successor_coming = False
        self._waiting: list[tuple[float, int, asyncio.Future[DecoderProcess]]] = []
        self._order = count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: HalfsecondError | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        try:
            async with asyncio.TaskGroup() as starts:
                for _ in range(self._size):
                    starts.create_task(self._add())
        except BaseExceptionGroup as failures:
            await self.aclose()
            raise failures.exceptions[0] from None
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all processes and fail whoever waits for one. Leaves no child."""
        self._closed = True
        self._fail(HalfsecondError(ErrorCode.INTERNAL, "the decoder pool is closed", retryable=True))
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._end(process) for process in tuple(self._processes)))

    @asynccontextmanager
    async def session(self, path: FilePath, *, deadline: Deadline) -> AsyncIterator[DecodeSession]:
        """Borrow a process and open ``path`` in it.

        Raises ``MediaError`` when it cannot be opened (NOT_FOUND, NOT_MEDIA, ...) and ``DeadlineExceeded`` when no
        process was free in time. Leaving early, by an exception or a cancellation, stops what the process is doing.
        """
        name = _file_name(path)
        process = await self._borrow(deadline)
        process.uses += 1
        session = DecodeSession(process, self._limits, deadline)
        try:
            await session.open(name)
            yield session
        finally:
            self._give_back(process, session)

    async def _borrow(self, deadline: Deadline) -> DecoderProcess:
        if self._failure:
            raise self._failure
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            self._in_background(self._replace(process))  # it died of something that was no clip's fault
        turn: asyncio.Future[DecoderProcess] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (deadline.at_s, next(self._order), turn))
        remaining_s = deadline.remaining()
        try:
            async with asyncio.timeout(remaining_s if remaining_s < float("inf") else None):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and not turn.exception():
                self._lend(turn.result())  # it came in the very moment in which we gave up
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded("no decoder was free in time") from None
            raise

    def _lend(self, process: DecoderProcess) -> None:
        """Hand a process to the most urgent session, or keep it."""
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(process)
                return
        self._idle.append(process)

    def _give_back(self, process: DecoderProcess, session: DecodeSession) -> None:
        if self._closed:
            return
        if session.broken:
            self._in_background(self._replace(process))
        elif session.unanswered is not None:
            process.stop(session.unanswered)
            self._in_background(self._settle(process, session.unanswered))
        else:
            self._free(process)

    def _free(self, process: DecoderProcess) -> None:
        """Put a process that has nothing to do back into use, or its successor when it is worn."""
        process.ask(Close(), float("inf"))
        worn = process.uses >= self._uses_per_process
        if worn and self._successor:
            self._in_background(self._end(process))
            process, self._successor = self._successor, None
        elif worn and not self._successor_coming:
            self._successor_coming = True
            self._in_background(self._prepare_successor())
        self._lend(process)

    async def _prepare_successor(self) -> None:
        try:
            self._successor = await self._start()
        except HalfsecondError:
            _log.warning("no successor for a worn decoder process", exc_info=True)
        finally:
            self._successor_coming = False

    async def _settle(self, process: DecoderProcess, sequence: int) -> None:
        """Wait for a stopped process to come back; replace it if it does not."""
        try:
            async with asyncio.timeout(_SETTLE_S):
                while isinstance(await process.receive(sequence), Picture):
                    pass
        except (TimeoutError, MediaError):
            await self._replace(process)
        else:
            self._free(process)

    async def _replace(self, process: DecoderProcess) -> None:
        await self._end(process)
        try:
            await self._add()
        except HalfsecondError as error:
            _log.exception("a decoder process cannot be replaced")
            if not self._processes:
                self._fail(error)

    async def _add(self) -> None:
        self._lend(await self._start())

    async def _start(self) -> DecoderProcess:
        for attempt in range(1, _START_ATTEMPTS):
            try:
                return await self._start_once()
            except HalfsecondError:
                await asyncio.sleep(attempt)
        return await self._start_once()

    async def _start_once(self) -> DecoderProcess:
        try:
            process = await DecoderProcess.start(self._limits)
        except (MediaError, OSError, TimeoutError) as error:
            raise HalfsecondError(ErrorCode.INTERNAL, f"a decoder process cannot start: {error}") from error
        self._processes.add(process)
        return process

    async def _end(self, process: DecoderProcess) -> None:
        await process.kill()
        self._processes.discard(process)

    def _fail(self, error: HalfsecondError) -> None:
        """Refuse everybody from now on."""
        self._failure = error
        for _, _, turn in self._waiting:
            if not turn.done():
                turn.set_exception(error)
        self._waiting.clear()

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _file_name(path: FilePath) -> bytes:
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        raise MediaError(ErrorCode.BAD_NAME, "the name cannot be written in the file system's encoding") from None

"""One CPU budget for the whole process.

Every model call and every decode takes a slot, so that models do not fight over the cores. When slots are short, who
has a deadline goes before who has none, and what an answer needs before what only makes it better; then the earliest
deadline decides (``slot_queue.py``).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from pipeline.slot_queue import Rank, SlotQueue, Ticket
from schemas.deadline import Clock, Deadline
from schemas.errors import DeadlineExceeded

T = TypeVar("T")


class NotBegun(DeadlineExceeded):
    """Raised when no slot came free in time: nothing was done, nothing was wasted."""


Book = Callable[[float], None]
"""Takes the milliseconds that a unit ran."""


class SlotStats(NamedTuple):
    """Counters since start-up. ``wasted``: units whose answer came after their deadline and was thrown away."""

    free: int
    waiting: int
    done: int
    wasted: int


class CpuSlots:
    """Hands out ``count`` slots and threads to use them. Belongs to one event loop. Close it with ``close()``."""

    def __init__(
        self, count: int, *, clock: Clock, for_patient: int | None = None, threads: Executor | None = None
    ) -> None:
        """``for_patient``: see ``SlotQueue``. ``threads``: where units run, at least ``count`` (its own if None)."""
        self.count = count
        self._clock = clock
        self._queue = SlotQueue(count, for_patient=for_patient)
        self._wakeups: dict[int, asyncio.Future[None]] = {}
        self._threads = threads or ThreadPoolExecutor(max_workers=count, thread_name_prefix="slot")
        self._done = 0
        self._wasted = 0

    def stats(self) -> SlotStats:
        """Return counters. Does not mutate."""
        return SlotStats(self._queue.free, self._queue.waiting, self._done, self._wasted)

    @contextmanager
    def hurried(self, deadline: Deadline) -> Iterator[None]:
        """Let no unit without a deadline begin while a job that has one is under way in this context."""
        if deadline.at_s == float("inf"):
            yield
            return
        self._queue.enter()
        try:
            yield
        finally:
            self._wake(self._queue.leave())

    @asynccontextmanager
    async def hold(self, *, rank: Rank, deadline: Deadline) -> AsyncIterator[None]:
        """Hold a slot for work that runs elsewhere (a decoder process). Raises ``NotBegun``."""
        ticket = await self._acquire(rank, deadline, start_by=deadline)
        try:
            yield
        finally:
            self._release(ticket)

    async def run(
        self,
        unit: Callable[[], T],
        *,
        rank: Rank,
        deadline: Deadline,
        start_by: Deadline | None = None,
        turn: int = 0,
        book: Book | None = None,
    ) -> tuple[T, float]:
        """Run ``unit`` in a thread on a slot; return its answer and the milliseconds it ran.

        Raises ``NotBegun`` when no slot came free by ``start_by`` (``deadline`` if None). ``turn``: see ``Ticket``.
        A thread cannot be cancelled: at the deadline (``DeadlineExceeded``) or on cancellation the caller goes on at
        once, the slot stays taken until the thread is done, and the late answer is counted as wasted. ``book`` is told
        the milliseconds of every unit that succeeded, the late ones included.
        """
        ticket = await self._acquire(rank, deadline, start_by=start_by or deadline, turn=turn)
        began_s = self._clock()
        future = asyncio.get_running_loop().run_in_executor(self._threads, unit)
        future.add_done_callback(partial(self._unit_done, ticket, began_s=began_s, book=book))
        try:
            done, _ = await asyncio.wait([future], timeout=_timeout_s(deadline))
        except asyncio.CancelledError:
            self._wasted += 1
            raise
        if not done:
            self._wasted += 1
            raise DeadlineExceeded
        return future.result(), (self._clock() - began_s) * 1e3

    def close(self) -> None:
        """Wait for running units and end the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _unit_done(self, ticket: Ticket, future: asyncio.Future[T], *, began_s: float, book: Book | None) -> None:
        self._done += 1
        self._release(ticket)
        # Asking for the exception marks it as seen: the caller may have gone on long ago.
        failed = future.cancelled() or future.exception() is not None
        if book is not None and not failed:
            book((self._clock() - began_s) * 1e3)

    async def _acquire(self, rank: Rank, deadline: Deadline, *, start_by: Deadline, turn: int = 0) -> Ticket:
        if start_by.expired:
            raise NotBegun
        ticket = self._queue.request(rank=rank, deadline_s=deadline.at_s, turn=turn)
        if not ticket.granted and not await self._granted_in_time(ticket, start_by):
            raise NotBegun
        return ticket

    async def _granted_in_time(self, ticket: Ticket, deadline: Deadline) -> bool:
        wakeup = self._wakeups[ticket.arrival] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait([wakeup], timeout=_timeout_s(deadline))
        except asyncio.CancelledError:
            if ticket.granted:
                self._release(ticket)  # granted in the same instant: pass it on
            raise
        finally:
            del self._wakeups[ticket.arrival]
            if not ticket.granted:
                self._queue.withdraw(ticket)
        return ticket.granted

    def _release(self, ticket: Ticket) -> None:
        self._wake(self._queue.release(ticket))

    def _wake(self, granted: list[Ticket]) -> None:
        for ticket in granted:
            self._wakeups[ticket.arrival].set_result(None)


def _timeout_s(deadline: Deadline) -> float | None:
    return None if deadline.at_s == float("inf") else deadline.remaining()

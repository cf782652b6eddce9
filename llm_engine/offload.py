"""Where CPU-bound calls of the engine run, so that they never block the event loop."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded

T = TypeVar("T")


class Offload(Protocol):
    """Runs a synchronous call elsewhere (a thread, a CPU slot) and awaits its answer."""

    async def __call__(self, call: Callable[[], T], *, deadline: Deadline) -> T:
        """Return what ``call`` returns, or raise ``DeadlineExceeded`` when that takes past ``deadline``."""
        ...


async def in_thread(call: Callable[[], T], *, deadline: Deadline) -> T:
    """Run ``call`` in asyncio's default threads. After the deadline the thread goes on and its answer is dropped."""
    async with until(deadline):
        return await asyncio.to_thread(call)


class until:  # noqa: N801  (reads as a preposition: ``async with until(deadline)``)
    """Limits what is awaited inside to a deadline; passing it raises ``DeadlineExceeded``."""

    def __init__(self, deadline: Deadline) -> None:
        never = deadline.at_s == float("inf")
        self._deadline = deadline
        self._timeout = asyncio.timeout(None if never else deadline.remaining())

    async def __aenter__(self) -> None:
        if self._deadline.expired:
            raise DeadlineExceeded
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._timeout.__aexit__(*error)  # type: ignore[arg-type]
        except TimeoutError:
            raise DeadlineExceeded from None

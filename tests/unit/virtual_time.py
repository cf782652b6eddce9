"""An event loop whose clock jumps to the next timer: tests of minutes take milliseconds, on any machine."""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

from schemas.deadline import Deadline


class _JumpingSelector(selectors.DefaultSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits for something that will never happen")
        self.now_s += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def hog(self, seconds: float) -> None:
        """Let so much time pass in which nothing else runs on this loop."""
        self._jumping.now_s += seconds


def within(seconds: float) -> Deadline:
    """Return a deadline on the running loop's clock, which threads may ask too."""
    return Deadline.after(seconds, clock=asyncio.get_running_loop().time)


def now_s() -> float:
    """The clock to inject."""
    return asyncio.get_running_loop().time()


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on its own loop; a task that it leaves behind is a failure."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(_without_leftovers(test(*args, **kwargs)))

    return run


async def _without_leftovers(test: Awaitable[None]) -> None:
    await test
    for _ in range(10):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"left behind: {left}"

"""Threads in virtual time: one runs at a time, never beside the loop; computing takes no time, waiting virtual time."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any


class VirtualThreads(Executor):
    """For ``CpuSlots`` on a ``VirtualLoop``. A unit runs at once, until it ends or waits (``sleep``, ``Gate``)."""

    def submit(self, unit: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        thread = _UnitThread(partial(unit, *args, **kwargs), asyncio.get_running_loop())
        thread.start()
        thread.go_on()
        return thread.future


class Gate(threading.Event):
    """An event that units may wait for on either kind of thread. Set it from the loop."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[_UnitThread] = []

    def set(self) -> None:
        super().set()
        while self._waiting:
            self._waiting.pop(0).go_on()

    def wait(self, timeout: float | None = None) -> bool:
        thread = threading.current_thread()
        if not isinstance(thread, _UnitThread):
            return super().wait(timeout)
        if not self.is_set():
            self._waiting.append(thread)
            thread.pause(timeout)
            if thread in self._waiting:
                self._waiting.remove(thread)
        return self.is_set()


def sleep(seconds: float) -> None:
    """Let a unit take its time, on either kind of thread."""
    thread = threading.current_thread()
    if isinstance(thread, _UnitThread):
        thread.pause(seconds)
    else:
        time.sleep(seconds)


class _UnitThread(threading.Thread):
    """Whose turn it is, its own or the loop's, is passed to and fro by two semaphores."""

    def __init__(self, unit: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self.future: Future[Any] = Future()
        self._unit = unit
        self._loop = loop
        self._turn = threading.Semaphore(0)
        self._loops_turn = threading.Semaphore(0)

    def run(self) -> None:
        self._turn.acquire()
        try:
            self.future.set_result(self._unit())
        except BaseException as error:  # noqa: BLE001  (who awaits the unit gets it)
            self.future.set_exception(error)
        finally:
            self._loops_turn.release()

    def go_on(self) -> None:
        """Run until the unit ends or waits. Called by the loop's thread."""
        self._turn.release()
        self._loops_turn.acquire()

    def pause(self, seconds: float | None) -> None:
        """Wait for so long in virtual time, or for whoever calls ``go_on`` before. Called by the unit."""
        timer = None if seconds is None else self._loop.call_later(seconds, self.go_on)
        self._loops_turn.release()
        self._turn.acquire()
        if timer is not None:
            timer.cancel()

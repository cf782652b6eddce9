"""How a pull shows itself: bars on a terminal, lines in a log, nothing when quiet."""

import time
from collections.abc import Mapping
from typing import Protocol, Self

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class PullProgress(Protocol):
    """Hears what a pull does. Bytes are those that travel: wheels, or files."""

    def plan(self, traffic_bytes: Mapping[str, int]) -> None:
        """Comes first: the models that will be fetched, in order, and how much each is (0: unknown)."""
        ...

    def begin(self, name: str) -> None:
        """``name`` is being fetched now."""
        ...

    def update(self, name: str, done_bytes: int) -> None:
        """So much of ``name`` has arrived, counted from its start."""
        ...

    def convert(self, name: str, done_bytes: int, total_bytes: int, /) -> None:
        """So much of a file of ``name`` has been made of what arrived. The first time is at 0."""
        ...

    def finish(self, name: str) -> None:
        """``name`` is whole, checked and in its place."""
        ...

    def note(self, text: str) -> None:
        """Something the user should know."""
        ...


class Silent:
    """Says nothing."""

    def plan(self, traffic_bytes: Mapping[str, int]) -> None:
        """Ignore."""

    def begin(self, name: str) -> None:
        """Ignore."""

    def update(self, name: str, done_bytes: int) -> None:
        """Ignore."""

    def convert(self, name: str, done_bytes: int, total_bytes: int) -> None:
        """Ignore."""

    def finish(self, name: str) -> None:
        """Ignore."""

    def note(self, text: str) -> None:
        """Ignore."""


class Lines:
    """A line when a model starts and one when it is there: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._traffic_bytes: Mapping[str, int] = {}
        self._began_s = 0.0

    def plan(self, traffic_bytes: Mapping[str, int]) -> None:
        """Say how much it will be."""
        self._traffic_bytes = traffic_bytes
        self.note(f"fetching {', '.join(traffic_bytes)}: {_size(sum(traffic_bytes.values()))}")

    def begin(self, name: str) -> None:
        """Say what comes."""
        self._began_s = time.monotonic()
        self.note(f"{name}: {_size(self._traffic_bytes[name])} ...")

    def update(self, name: str, done_bytes: int) -> None:
        """Ignore: a log is not a screen."""

    def convert(self, name: str, done_bytes: int, total_bytes: int) -> None:
        """Say that it is no longer the network that is at work."""
        if done_bytes == 0:
            self.note(f"{name}: converting to {_size(total_bytes)} ...")

    def finish(self, name: str) -> None:
        """Say how long it took."""
        self.note(f"{name}: there, after {time.monotonic() - self._began_s:.1f} s")

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)


class Bars:
    """A bar a model, and one for all. A context manager: the screen is restored on the way out."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._all: TaskID | None = None
        self._conversion: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def plan(self, traffic_bytes: Mapping[str, int]) -> None:
        """Show what is to come."""
        for name, size in traffic_bytes.items():
            self._tasks[name] = self._bars.add_task(name, start=False, total=size or None)
        if len(traffic_bytes) > 1:
            self._all = self._bars.add_task("all", total=sum(traffic_bytes.values()))

    def begin(self, name: str) -> None:
        """Start the bar's clock."""
        self._bars.start_task(self._tasks[name])

    def update(self, name: str, done_bytes: int) -> None:
        """Move the bar."""
        self._bars.update(self._tasks[name], completed=done_bytes)
        self._sum_up()

    def convert(self, _name: str, done_bytes: int, total_bytes: int) -> None:
        """Move a bar of its own: what is made here did not travel."""
        if done_bytes == 0:
            self._conversion = self._bars.add_task("  converting", total=total_bytes)
        elif self._conversion is not None:
            self._bars.update(self._conversion, completed=done_bytes)

    def finish(self, name: str) -> None:
        """Fill the bar: the size in the catalogue is a wheel's and may be off by a little."""
        task = self._bars.tasks[self._tasks[name]]
        size = task.total or task.completed
        self._bars.update(task.id, total=size, completed=size)
        self._sum_up()

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(escape(text), highlight=False)

    def _sum_up(self) -> None:
        if self._all is not None:
            done = sum(self._bars.tasks[task].completed for task in self._tasks.values())
            self._bars.update(self._all, completed=done)


def _size(size_bytes: int) -> str:
    return decimal(size_bytes) if size_bytes else "size unknown"

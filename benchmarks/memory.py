"""Peak memory of this process and of everything it starts, read from /proc."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

EVERY_S = 0.05
"""The kernel keeps each living process's peak, so sampling only has to be faster than a decoder's life."""

PROC = Path("/proc")


class PeakMemory:
    """Watches from ``__enter__`` to ``__exit__``. ``peaks_bytes``: highest resident size by process, largest first."""

    def __init__(self) -> None:
        self._peaks: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    @property
    def peaks_bytes(self) -> dict[str, int]:
        """Peak resident bytes, by ``pid name``."""
        return dict(sorted(self._peaks.items(), key=lambda item: -item[1]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._sample()
        self._sample()

    def _sample(self) -> None:
        for pid in (os.getpid(), *descendants(os.getpid())):
            peak_bytes = _peak_bytes(pid)
            if peak_bytes:
                name = f"{pid} {_name(pid)}"
                self._peaks[name] = max(peak_bytes, self._peaks.get(name, 0))


def descendants(pid: int) -> Iterator[int]:
    """Yield the process ids of all children, and theirs, that are alive."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (parent := _parent(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    open_ = [pid]
    while open_:
        for child in children.get(open_.pop(), ()):
            yield child
            open_.append(child)


def _parent(pid: int) -> int | None:
    try:
        # The name in brackets may hold anything, so count from its end.
        return int((PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None  # it has just ended


def _peak_bytes(pid: int) -> int:
    try:
        status = (PROC / str(pid) / "status").read_text("utf-8", "replace")
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


def _name(pid: int) -> str:
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    return " ".join(word.decode("utf-8", "replace") for word in words if word)[:80]

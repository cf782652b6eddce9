"""Room for clips that the disk cannot take."""

import threading


class MemoryBudget:
    """So many bytes of memory, taken and given back. Thread-safe."""

    def __init__(self, total_bytes: int) -> None:
        self._free_bytes = total_bytes
        self._lock = threading.Lock()

    def take(self, count_bytes: int) -> bool:
        """Take ``count_bytes`` if that many are left, and say so."""
        with self._lock:
            if count_bytes > self._free_bytes:
                return False
            self._free_bytes -= count_bytes
            return True

    def give_back(self, count_bytes: int) -> None:
        """Undo a ``take``."""
        with self._lock:
            self._free_bytes += count_bytes

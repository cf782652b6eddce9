"""How much fetching one clip may cost."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds on one fetch, and on all of them together.

    ``timeout_s`` bounds a fetch whose job has more time or no deadline at all. ``connect_timeout_s`` is what one
    address of a host may take to answer. ``cache_bytes`` bounds the clips kept on disk (0 keeps none);
    ``memory_bytes`` bounds those held in memory while the disk is full. ``connections`` may be open at once, a quarter
    of them to one host, so that a store that hangs does not take the others' share.
    """

    max_bytes: int = 512 * 1024**2
    timeout_s: float = 30.0
    connect_timeout_s: float = 3.0
    max_redirects: int = 3
    connections: int = 128
    cache_bytes: int = 2 * 1024**3
    memory_bytes: int = 256 * 1024**2

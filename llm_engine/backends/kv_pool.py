"""The memory of cached keys and values, owned by us so that parts of it can be given back to the system."""

import mmap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Cache = npt.NDArray[np.float32]
"""Shape (blocks, kv_heads, block_size, head_dim): the keys or the values of one layer."""


class KvPool:
    """All caches of a model, zeros at first. A page costs memory once it has been written to.

    In each cache a block is one run of bytes (24 KiB for SmolLM2-135M), so its pages can be given back on their own.
    """

    def __init__(self, *, caches: int, shape: tuple[int, int, int, int]) -> None:
        self._block_bytes = int(np.prod(shape[1:])) * np.dtype(np.float32).itemsize
        self._cache_bytes = -(-shape[0] * self._block_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, caches * self._cache_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a system without huge pages
            self._memory.madvise(mmap.MADV_NOHUGEPAGE)  # one would make a single block cost 2 MB in every cache
        numbers = int(np.prod(shape))
        self.caches: tuple[Cache, ...] = tuple(
            np.frombuffer(self._memory, np.float32, numbers, offset).reshape(shape)
            for offset in range(0, caches * self._cache_bytes, self._cache_bytes)
        )

    def give_back(self, blocks: Sequence[int]) -> None:
        """Return the pages that only ``blocks`` use to the system; what was in these blocks is lost."""
        for first, end in _runs(blocks):
            begin_bytes = -(-first * self._block_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
            end_bytes = end * self._block_bytes // mmap.PAGESIZE * mmap.PAGESIZE
            if begin_bytes < end_bytes:
                self._give_back(begin_bytes, end_bytes)

    def _give_back(self, begin_bytes: int, end_bytes: int) -> None:
        for offset in range(0, len(self._memory), self._cache_bytes):
            self._memory.madvise(mmap.MADV_DONTNEED, offset + begin_bytes, end_bytes - begin_bytes)


def _runs(blocks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return (first, last + 1) of each run of neighbours."""
    ordered = sorted(set(blocks))
    breaks = [i for i, (a, b) in enumerate(pairwise(ordered), 1) if b != a + 1]
    for begin, end in pairwise([0, *breaks, len(ordered)]):
        if begin < end:
            yield ordered[begin], ordered[end - 1] + 1

"""Who owns which block of keys and values, and which blocks can be used again.

A block holds ``block_size`` tokens and is in exactly one of three places::

    free ──extend──► referenced by sequences ──release──► free                    (never filled)
                        ▲                 └────release──► cached, unreferenced    (full and sealed)
                        └───adopt_prefix──┴──extend (least recently used first, forgotten)

Full blocks are immutable and shared; the last block of a sequence is its own until it is full. A block is known by the
hash of its tokens and of all tokens before it, chained from the model's identity, so that equal hashes mean equal keys
and values. The hash is cryptographic: texts are hostile, and a collision would show one clip to another.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from llm_engine.sequence import Sequence

_HASH_BYTES = 16


class IntegrityError(AssertionError):
    """Raised when a block is lost, doubled or miscounted. A bug, never an input."""


class BlockManager:
    """Hands out blocks 0 to ``num_blocks`` - 1. Pure and synchronous."""

    def __init__(self, *, num_blocks: int, block_size: int, identity: str) -> None:
        """``identity``: of the weights and everything else that keys and values depend on."""
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._root = blake2b(identity.encode(), digest_size=_HASH_BYTES).digest()
        self._free = list(reversed(range(num_blocks)))
        self._references = [0] * num_blocks
        self._hash_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}
        self._unreferenced: OrderedDict[int, None] = OrderedDict()
        """Cached blocks that nobody uses, the least recently used first."""

    @property
    def available(self) -> int:
        """Blocks that a sequence could get now."""
        return len(self._free) + len(self._unreferenced)

    def can_extend(self, sequence: Sequence, num_tokens: int) -> bool:
        """Whether the block table of ``sequence`` could cover its first ``num_tokens`` tokens."""
        return self._missing(sequence, num_tokens) <= self.available

    def extend(self, sequence: Sequence, num_tokens: int) -> None:
        """Make the block table cover the first ``num_tokens`` tokens. Mutates; ask ``can_extend`` first."""
        for _ in range(self._missing(sequence, num_tokens)):
            block = self._free.pop() if self._free else self._evict()
            self._references[block] = 1
            sequence.block_table.append(block)

    def adopt_prefix(self, sequence: Sequence) -> int:
        """Give a sequence without blocks the cached ones of its longest known prefix; return the tokens saved.

        Mutates ``sequence``. At least two tokens are left to compute: one would be a chunk of one (see ``Executor``).
        """
        for index in range(max(0, len(sequence.token_ids) - 2) // self.block_size):
            block = self._block_of.get(self._hash(sequence, index))
            if block is None:
                break
            self._references[block] += 1
            self._unreferenced.pop(block, None)
            sequence.block_table.append(block)
        sequence.num_computed = len(sequence.block_table) * self.block_size
        return sequence.num_computed

    def seal(self, sequence: Sequence) -> None:
        """Make the full computed blocks of ``sequence`` known to ``adopt_prefix``."""
        for index in range(sequence.num_computed // self.block_size - 1, -1, -1):
            block = sequence.block_table[index]
            if block in self._hash_of:
                break  # so are all before it
            digest = self._hash(sequence, index)
            if digest not in self._block_of:  # else another sequence has computed the same; ours is freed with it
                self._hash_of[block], self._block_of[digest] = digest, block

    def release(self, sequence: Sequence) -> None:
        """Take all blocks back. Mutates ``sequence``: nothing of it is computed any more."""
        for block in reversed(sequence.block_table):  # of one prefix the end is evicted before the beginning
            self._references[block] -= 1
            if self._references[block] == 0:
                self._put_away(block)
        sequence.block_table = []
        sequence.num_computed = 0

    def forget_unreferenced(self) -> list[int]:
        """Empty the prefix cache of what nobody uses; return every block that is free now."""
        while self._unreferenced:
            self._free.append(self._evict())
        return list(self._free)

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        """Raise ``IntegrityError`` unless ``sequences`` hold exactly the referenced blocks and no block is lost."""
        held = Counter(block for sequence in sequences for block in sequence.block_table)
        places = [*self._free, *self._unreferenced, *held]
        _insist(sorted(places) == list(range(self.num_blocks)), "every block is in exactly one place")
        _insist(all(self._references[b] == held[b] for b in range(self.num_blocks)), "references are counted right")
        _insist(all(self._block_of[digest] == b for b, digest in self._hash_of.items()), "hashes name their blocks")
        _insist(len(self._block_of) == len(self._hash_of), "blocks name their hashes")
        _insist(not any(b in self._hash_of for b in self._free), "free blocks have no content")
        _insist(all(b in self._hash_of for b in self._unreferenced), "cached blocks have content")

    def _missing(self, sequence: Sequence, num_tokens: int) -> int:
        return max(0, -(-num_tokens // self.block_size) - len(sequence.block_table))

    def _evict(self) -> int:
        block, _ = self._unreferenced.popitem(last=False)
        del self._block_of[self._hash_of.pop(block)]
        return block

    def _put_away(self, block: int) -> None:
        if block in self._hash_of:
            self._unreferenced[block] = None
        else:
            self._free.append(block)

    def _hash(self, sequence: Sequence, index: int) -> bytes:
        """Return the hash of block ``index``. Mutates ``sequence.block_hashes``, which remembers it."""
        hashes = sequence.block_hashes
        for number in range(len(hashes), index + 1):
            tokens = sequence.token_ids[number * self.block_size : (number + 1) * self.block_size]
            parent = hashes[-1] if hashes else self._root
            hashes.append(blake2b(np.array(tokens, np.int64).tobytes(), key=parent, digest_size=_HASH_BYTES).digest())
        return hashes[index]


def _insist(holds: bool, what: str) -> None:  # noqa: FBT001
    if not holds:
        raise IntegrityError(f"it does not hold that {what}")

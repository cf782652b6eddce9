"""Finds out, beside the poll thread, what is answered of partitions that were just assigned."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from pipeline.bus.base import Offsets, Partition
from pipeline.service.answered import AnsweredSearch, Recalled
from pipeline.service.ledger import Ledger

log = logging.getLogger(__name__)


class Takeover:
    """A thread that searches for those who wait: the partitions stay paused until the ledger has been told."""

    def __init__(self, search: AnsweredSearch, ledger: Ledger) -> None:
        self._search = search
        self._ledger = ledger
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="takeover")

    @property
    def incomplete(self) -> int:
        """Searches that were given up: duplicates may have followed."""
        return self._search.incomplete

    def begin(self, terms: Mapping[Partition, int], committed: Offsets, *, done: Callable[[], None]) -> None:
        """Search for answers to the records after ``committed``, tell the ledger, then call ``done`` there."""
        self._thread.submit(self._run, terms, committed, done)

    def close(self) -> None:
        """End, after a search under way. Blocks."""
        self._thread.shutdown(cancel_futures=True)
        self._search.close()

    def _run(self, terms: Mapping[Partition, int], committed: Offsets, done: Callable[[], None]) -> None:
        found: Mapping[Partition, Recalled] = {}
        try:
            found = self._search.find({p: committed[p].offset if p in committed else None for p in terms})
        except Exception:  # a bug: the records must be answered all the same
            log.exception("the search for answers broke")
        finally:
            for partition, term in terms.items():
                self._ledger.recall(partition, found.get(partition), term=term)
            done()

"""Embeddings on demand: remembered, and computed together when they are asked for together."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from llm_engine.offload import Offload, until
from schemas.deadline import Deadline
from schemas.errors import DeadlineExceeded

Vector = npt.NDArray[np.float32]
"""A direction in embedding space, shape (dim,), unit length."""

Directions = npt.NDArray[np.float32]
"""One vector a row, shape (n, dim)."""

MAX_REMEMBERED = 512
"""1 MB. One clip needs about twenty, each for topics, safety and summary."""


class TextEncoder(Protocol):
    """Turns texts into directions."""

    @property
    def model(self) -> str:
        """Name and version of the weights."""
        ...

    def encode(self, texts: Sequence[str]) -> Directions:
        """Return one unit vector a text. Thread-safe."""
        ...


class Vectors:
    """Embeds texts without blocking the event loop that it belongs to.

    Texts asked for in one turn of the loop share one call of the encoder, and so one CPU slot.
    """

    def __init__(self, encoder: TextEncoder, *, offload: Offload) -> None:
        self.model = encoder.model
        self._encoder = encoder
        self._offload = offload
        self._remembered: OrderedDict[str, Vector] = OrderedDict()
        self._awaited: dict[str, asyncio.Future[Vector]] = {}
        self._awaited_until: Deadline | None = None
        self._batches: set[asyncio.Task[None]] = set()

    async def all_of(self, texts: Sequence[str], *, deadline: Deadline) -> Directions:
        """Embed ``texts`` now, in a call of their own, and forget them."""
        return await self._offload(partial(self._encoder.encode, texts), deadline=deadline)

    async def of(self, text: str, *, deadline: Deadline) -> Vector:
        """Return the direction of ``text``: remembered, or from the batch that this turn of the loop collects.

        Raises ``DeadlineExceeded``; the batch goes on for the others.
        """
        if (known := self._remembered.get(text)) is not None:
            return known
        waiting = self._awaited.get(text) or self._join_batch(text)
        if self._awaited_until is None or deadline.at_s > self._awaited_until.at_s:
            self._awaited_until = deadline
        async with until(deadline):
            return await asyncio.shield(waiting)

    def forget(self) -> None:
        """Give back the memory of what is remembered."""
        self._remembered.clear()

    def _join_batch(self, text: str) -> asyncio.Future[Vector]:
        if not self._awaited:
            batch = asyncio.create_task(self._embed_awaited())  # runs once this turn of the loop is over
            self._batches.add(batch)
            batch.add_done_callback(self._batches.discard)
        self._awaited[text] = asyncio.get_running_loop().create_future()
        return self._awaited[text]

    async def _embed_awaited(self) -> None:
        """Embed the texts collected so far. A failure goes to those who wait for them."""
        batch, self._awaited = self._awaited, {}
        deadline, self._awaited_until = self._awaited_until or Deadline.never(), None
        try:
            vectors = await self.all_of(list(batch), deadline=deadline)
        except Exception as error:  # noqa: BLE001  (handed on, whatever it is)
            for waiting in batch.values():
                _fail(waiting, error)
        except asyncio.CancelledError:  # the loop is closing
            for waiting in batch.values():
                _fail(waiting, DeadlineExceeded())
            raise
        else:
            for (text, waiting), vector in zip(batch.items(), vectors, strict=True):
                waiting.set_result(vector)
                self._remember(text, vector)

    def _remember(self, text: str, vector: Vector) -> None:
        self._remembered[text] = vector
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)


def _fail(waiting: asyncio.Future[Vector], error: Exception) -> None:
    waiting.set_exception(error)
    waiting.exception()  # marks it as seen: those who waited may have gone on

"""Streams that are closed whatever happens: a generator left half read keeps its engine busy."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class closing(Generic[T]):  # noqa: N801  (reads like ``contextlib.aclosing``, which wants a generator)
    """``async with closing(stream) as values``: closes ``stream`` afterwards if it is one that can be closed."""

    def __init__(self, stream: AsyncIterator[T]) -> None:
        self._stream = stream

    async def __aenter__(self) -> AsyncIterator[T]:
        return self._stream

    async def __aexit__(self, *error: object) -> None:
        if isinstance(self._stream, AsyncGenerator):
            await self._stream.aclose()

"""A server that answers with exactly the bytes a test wants, and a fetcher that may ask it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pipeline.fetch.fetcher import Fetcher
from pipeline.fetch.names import Lookup
from pipeline.fetch.opening import open_fetcher
from pipeline.settings import Settings

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def whole(body: bytes, *headers: str, status: str = "200 OK") -> Answer:
    """An honest answer."""
    return raw(_head(status, f"Content-Length: {len(body)}", *headers) + body)


def redirect(location: str, status: str = "302 Found") -> Answer:
    return whole(b"", f"Location: {location}", status=status)


def raw(data: bytes) -> Answer:
    """These bytes, then the end of the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


def dead(writer: asyncio.StreamWriter) -> Awaitable[None]:
    """No answer, ever."""
    return asyncio.Event().wait()


def dripping(length: int = 1000) -> Answer:
    """A body that comes a byte at a time and never ends."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(_head("200 OK", f"Content-Length: {length}"))
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    return answer


def endless(*headers: str) -> Answer:
    """A body as fast as it is taken, without an end."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(_head("200 OK", *headers))
        while True:
            writer.write(bytes(64 * 1024))
            await writer.drain()

    return answer


def _head(status: str, *headers: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", "Connection: close", *headers, "", "")).encode("latin-1")


class RawServer:
    """Answers each path as told. ``asked`` lists the request heads."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.answer_to_all: Answer | None = None
        self.asked: list[str] = []
        self.port = 0

    def url(self, path: str, *, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def serve(self, path: str, answer: Answer, *, host: str = "127.0.0.1") -> str:
        """Answer ``path`` so from now on; return its link."""
        self.answers[path] = answer
        return self.url(path, host=host)

    def serve_all(self, answer: Answer) -> None:
        """Answer every question so."""
        self.answer_to_all = answer

    def count(self, path: str) -> int:
        """How often ``path`` was asked for."""
        return sum(head.startswith(f"GET {path} ") for head in self.asked)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.asked.append(head)
            await (self.answer_to_all or self.answers[head.split()[1]])(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def raw_server() -> AsyncIterator[RawServer]:
    """A server on a free port of this machine. Its connections end with it."""
    server = RawServer()
    tasks: set[asyncio.Task[Any]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(server._handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def fetcher_for(
    folder: Path, *, port: int = 80, lookup: Lookup | None = None, **settings: Any
) -> AsyncIterator[Fetcher]:
    """A fetcher that may ask ``port`` of 127.0.0.1 (not of the rest of 127.0.0.0/8)."""
    values = {"fetch_allow_private": ("127.0.0.1/32",), "fetch_ports": (port,), "cache_dir": folder} | settings
    async with open_fetcher(Settings(**values), lookup=lookup) as fetcher:
        yield fetcher


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def cached(folder: Path) -> list[str]:
    """Names of all that lies in the cache, unfinished files included."""
    return names_in(folder / "clips")


def open_descriptors() -> int:
    """How many files, sockets and pipes this process holds open."""
    return len(names_in(Path("/proc/self/fd")))

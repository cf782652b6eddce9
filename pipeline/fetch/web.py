"""Reading a clip over http(s), from a server that may be slow, dead, lying or hostile."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp.connector import AddrInfoType
from yarl import URL

from pipeline.fetch.errors import FetchError, failed, not_found, refused, timed_out
from pipeline.fetch.limits import FetchLimits
from pipeline.fetch.names import CheckedResolver, Lookup, Policy
from pipeline.fetch.web_address import WebAddress, follow, parse_web_address

_PIECE_BYTES: Final = 1 << 20
"""One trip to a thread costs about 0.1 ms; writing and hashing this much, ten times that."""

_BUFFER_BYTES: Final = 256 * 1024
_OK: Final = 200
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_GONE: Final = frozenset((404, 410))
_LATER: Final = frozenset((408, 425, 429))
_SERVER_ERRORS: Final = 500
_HEADERS: Final = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "halfsecond"}


@dataclass(frozen=True, slots=True)
class Body:
    """An answer under way. ``length_bytes`` is what the server announces, which need not be true."""

    length_bytes: int | None
    _content: aiohttp.StreamReader

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield what comes, in pieces of about 1 MiB. Bounded by nothing but the caller's patience."""
        piece = bytearray()
        while data := await self._content.readany():
            piece += data
            if len(piece) >= _PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)


class WebClient:
    """Keeps connections open, between a clip and the next. Belongs to one event loop; an async context manager.

    ``ports``: those that may be asked; None means all. Asks for no proxy, keeps no cookie, sends no credentials,
    unpacks nothing.
    """

    def __init__(
        self, *, policy: Policy, ports: frozenset[int] | None, max_redirects: int, lookup: Lookup, limits: FetchLimits
    ) -> None:
        self._policy = policy
        self._ports = ports
        self._max_redirects = max_redirects
        self._lookup = lookup
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(self._lookup, self._policy),
            use_dns_cache=False,
            limit=self._limits.connections,
            limit_per_host=max(1, self._limits.connections // 4),
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._limits.connect_timeout_s),
            headers=_HEADERS,
            read_bufsize=_BUFFER_BYTES,
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def check(self, uri: str) -> WebAddress:
        """Return the link taken apart. Raises ``FetchError`` FETCH_REFUSED for what is refused unasked."""
        address = parse_web_address(uri)
        if self._ports is not None and address.port not in self._ports:
            raise refused("a link to a port that may not be asked")
        if address.address is not None and not self._policy.admits(address.address):
            raise refused("the link's host is none that may be asked")
        return address

    @asynccontextmanager
    async def get(self, uri: str) -> AsyncIterator[Body]:
        """Ask for ``uri``, follow redirects, and yield the body of the first answer that is none.

        Raises ``FetchError``: FETCH_REFUSED, FETCH_FAILED, FETCH_TIMED_OUT (one connection) or NOT_FOUND; also from
        inside the context, when the connection breaks while the body is read.
        """
        address = self.check(uri)
        for _ in range(self._max_redirects + 1):
            async with _translating(), self._ask(address) as answer:
                location = answer.headers.get("Location")
                if answer.status not in _REDIRECTS or location is None:
                    _require_plain(answer)
                    yield Body(answer.content_length, answer.content)
                    return
            address = self.check(str(follow(address, location)))
        raise refused(f"more than {self._max_redirects} redirects")

    @asynccontextmanager
    async def _ask(self, address: WebAddress) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            raise RuntimeError("enter the client first")
        answer = await self._session.get(URL(str(address), encoded=True), allow_redirects=False)
        try:
            yield answer
        finally:
            answer.close()  # a connection whose answer was read to its end has gone back to the pool by itself

    def _socket(self, info: AddrInfoType) -> socket.socket:
        """Make the socket of a connection. Nothing is connected to that did not pass here."""
        family, kind, protocol, _, address = info
        if not self._policy.admits(ip_address(address[0])):
            raise PermissionError("an address that may not be asked")
        return socket.socket(family, kind, protocol)


def _require_plain(answer: aiohttp.ClientResponse) -> None:
    """Raise ``FetchError`` unless ``answer`` is the whole of the object, as it is."""
    status = answer.status
    if status in _GONE:
        raise not_found()
    if status != _OK:
        raise failed(f"the server answers {status}", retryable=status >= _SERVER_ERRORS or status in _LATER)
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise failed("the server sends the clip compressed, though asked not to", retryable=False)


@asynccontextmanager
async def _translating() -> AsyncIterator[None]:
    """Turn aiohttp's exceptions into ours."""
    try:
        yield
    except FetchError:
        raise
    except TimeoutError:
        raise timed_out() from None
    except aiohttp.ClientConnectorDNSError:
        raise failed("the host's name cannot be looked up", retryable=True) from None
    except aiohttp.ClientSSLError:
        raise failed("no trusted encrypted connection to the server", retryable=False) from None
    except aiohttp.InvalidURL:
        raise refused("a link that cannot be read") from None
    except (aiohttp.ClientError, asyncio.IncompleteReadError, OSError):
        raise failed("the connection to the server failed", retryable=True) from None

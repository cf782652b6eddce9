"""Host names to addresses, and only to such as may be asked.

A name is looked up once per connection, and the connection goes to the very address that was checked: a name that means
something else a moment later (DNS rebinding) gains nothing.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Protocol

from aiohttp.abc import AbstractResolver, ResolveResult

from pipeline.fetch.addresses import Address
from pipeline.fetch.errors import refused

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, for a port. Raises ``OSError``."""


class Policy(Protocol):
    """Says where connections may go: ``AddressPolicy`` or ``AnyAddress``."""

    def admits(self, address: Address) -> bool:
        """Whether a connection to ``address`` may be opened."""
        ...


class SystemLookup:
    """Asks the C library, and so follows the machine's own rules (hosts file, search domains, cache).

    It cannot be interrupted: a name whose servers are silent holds one of ``threads`` for as long as the C library is
    patient, and nobody waits for it.
    """

    def __init__(self, *, threads: int = 8) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="fetch-names")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the host's addresses, in the order in which to try them."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return tuple(str(entry[4][0]) for entry in found)

    def close(self) -> None:
        """Let the threads end. Waits for none of them."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class CheckedResolver(AbstractResolver):
    """What aiohttp asks before it connects. Leaves out addresses that ``policy`` does not admit."""

    def __init__(self, lookup: Lookup, policy: Policy) -> None:
        self._lookup = lookup
        self._policy = policy

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return where ``host`` may be reached. Raises ``FetchError`` FETCH_REFUSED when that is nowhere."""
        found = [ip_address(text) for text in await self._lookup(host, port)]
        admitted = [address for address in found if self._policy.admits(address)]
        if found and not admitted:
            raise refused("the link's host is none that may be asked")
        return [
            ResolveResult(hostname=host, host=str(address), port=port, family=_family(address), proto=0, flags=0)
            for address in admitted
            if family in (socket.AF_UNSPEC, _family(address))
        ]

    async def close(self) -> None:
        """Do nothing: the lookup belongs to who made it."""


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6

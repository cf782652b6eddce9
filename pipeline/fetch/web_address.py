"""Reading http(s) links that strangers wrote. Pure.

Two parsers that read one link differently are how a check is passed by; so a link is taken apart here, by narrow rules,
and put together again from the parts that were checked.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from pipeline.fetch.addresses import Address
from pipeline.fetch.errors import FetchError, refused

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MAX_CHARACTERS: Final = 8192  # what servers take in a request line
_WRITTEN: Final = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")  # RFC 3986: no spaces, controls, backslashes
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_NUMBER: Final = re.compile(r"\d+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A link that is safe to write into a request. ``host``: lower case, brackets removed.

    ``path_and_query`` is percent-encoded as it came. ``address`` is set when the host is no name but an IP address.
    """

    scheme: str
    host: str
    port: int
    path_and_query: str
    address: Address | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path_and_query}"


def parse_web_address(uri: str) -> WebAddress:
    """Take a link apart. Raises ``FetchError`` FETCH_REFUSED."""
    parts, port = _split(uri)
    if parts.scheme not in _DEFAULT_PORTS:
        raise refused("not an http or https link")
    if "@" in parts.netloc:
        raise refused("a link must not hold a user or a password")
    host, address = _host(parts)
    return WebAddress(
        scheme=parts.scheme,
        host=host,
        port=_DEFAULT_PORTS[parts.scheme] if port is None else port,
        path_and_query=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        address=address,
    )


def follow(current: WebAddress, location: str) -> WebAddress:
    """Return where a redirect leads. Raises ``FetchError`` FETCH_REFUSED, also when it gives up encryption."""
    try:
        target = urljoin(str(current), location)
    except ValueError:
        raise _malformed() from None
    following = parse_web_address(target)
    if current.scheme == "https" and following.scheme != "https":
        raise refused("redirected from https to http")
    return following


def _split(uri: str) -> tuple[SplitResult, int | None]:
    if len(uri) > _MAX_CHARACTERS:
        raise refused(f"a link of more than {_MAX_CHARACTERS} characters")
    if not _WRITTEN.fullmatch(uri):
        raise refused("a link with characters that must be percent-encoded")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise _malformed() from None
    return parts, port


def _host(parts: SplitResult) -> tuple[str, Address | None]:
    host = (parts.hostname or "").lower()
    if parts.netloc.startswith("["):
        address = _v6(host)
        return str(address), address
    last = host.rpartition(".")[2]
    if _NUMBER.fullmatch(last):  # whatever ends in a number is an address to the C library: 127.1, 0x7f.1, 2130706433
        v4 = _v4(host)
        return str(v4), v4
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise _malformed()
    return host, None


def _v4(host: str) -> IPv4Address:
    try:
        return IPv4Address(host)
    except ValueError:
        raise refused("an IPv4 address that is not four decimal numbers") from None


def _v6(host: str) -> IPv6Address:
    try:
        address = IPv6Address(host)
    except ValueError:
        raise _malformed() from None
    if address.scope_id is not None:
        raise refused("an IPv6 address with a zone")
    return address


def _malformed() -> FetchError:
    return refused("a link that cannot be read")

"""Which addresses a stranger's link may lead us to. Pure.

The lists are IANA's registries of special-purpose addresses, written out: what ``ipaddress`` calls private or global
has changed between Python's patch releases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' NAT; Alibaba's metadata service
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local; the metadata services of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; Oracle's metadata service
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

_UNICAST_V6: Final = IPv6Network("2000::/3")
_SPECIAL_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments; Teredo hides IPv4 addresses in it
        "2001:db8::/32",
        "2002::/16",  # 6to4 hides IPv4 addresses in it
        "3fff::/20",
    )
)

_EMBEDDED_V4: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""Mapped addresses, and NAT64, through which a host without IPv4 reaches all of it. The last 32 bits are the target."""

_METADATA: Final[frozenset[Address]] = frozenset(
    (
        IPv4Address("169.254.169.254"),
        IPv4Address("169.254.170.2"),
        IPv4Address("100.100.100.200"),
        IPv4Address("192.0.0.192"),
        IPv6Address("fd00:ec2::254"),
        IPv6Address("fd20:ce::254"),
    )
)
"""They hand credentials to whoever asks. Opening a network around one must not open it by the way."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Admits public addresses, and the networks that are ``allowed`` besides.

    A cloud's metadata service is admitted only by a network that holds nothing else (``/32``, ``/128``).
    """

    allowed: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, networks: Sequence[str]) -> "AddressPolicy":
        """Read CIDRs such as ``10.2.0.0/16`` or ``127.0.0.1``. Raises ``ValueError``."""
        return cls(tuple(ip_network(text) for text in networks))

    def admits(self, address: Address) -> bool:
        """Whether a connection to ``address`` may be opened."""
        target = _embedded(address)
        if any(_opens(network, target) for network in self.allowed):
            return True
        return _is_public(target)


@dataclass(frozen=True, slots=True)
class AnyAddress:
    """Admits every address: for hosts that the installation itself named."""

    def admits(self, address: Address) -> bool:  # noqa: ARG002  (as in AddressPolicy)
        """Return True."""
        return True


def _embedded(address: Address) -> Address:
    if isinstance(address, IPv6Address) and any(address in network for network in _EMBEDDED_V4):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _opens(network: Network, address: Address) -> bool:
    if address.version != network.version or address not in network:
        return False
    return address not in _METADATA or network.num_addresses == 1


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    if address.scope_id is not None or address not in _UNICAST_V6:
        return False
    return not any(address in network for network in _SPECIAL_V6)

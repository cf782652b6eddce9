"""Ports for a server that must be able to come back on them."""

import random
import socket
from pathlib import Path

KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = 15_000


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on just now.

    They lie below those that the kernel hands to outgoing connections: while a server is down, a client that knocks
    on a port of that range may be given the very port (and talk to itself), and the server cannot come back.
    """
    end = int(KERNEL_RANGE.read_text("ascii").split()[0]) if KERNEL_RANGE.exists() else 32_768
    candidates = range(LOWEST, end) if end > LOWEST + 1_000 else range(1_024, 65_536)
    free = (port for port in random.sample(candidates, len(candidates)) if _is_free(port))
    return [next(free) for _ in range(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

"""Where ranks of several hosts meet: the interface that leads to the others, and a free port."""

import random
import socket
from collections.abc import Sequence

import psutil

from tuner.errors import LauncherError

# Below where the kernel takes the ports of outgoing connections, above Ray's own.
_PORTS = range(20_000, 32_000)
_ATTEMPTS = 200


def interface_to(addresses: Sequence[str], named: str | None = None) -> tuple[str, str]:
    """The interface of the route from here to these addresses, and our own address on it.

    Args:
        addresses: Those of the other hosts.
        named: The interface to use whatever the route.

    Raises:
        LauncherError: There is no such interface, or no route.
    """
    ours = {
        address.address: name
        for name, each in psutil.net_if_addrs().items()
        for address in each
        if address.family == socket.AF_INET
    }
    if named is not None:
        found = [address for address, name in ours.items() if name == named]
        if not found:
            known = ", ".join(sorted(set(ours.values())))
            raise LauncherError(
                f"{socket.gethostname()} has no interface {named} with an IPv4 address; it has "
                f"{known}; name another by --interface"
            )
        return named, found[0]
    for address in addresses:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                # A datagram socket sends nothing when it is connected; the kernel finds the route.
                probe.connect((address, 9))
            except OSError:
                continue
            own: str = probe.getsockname()[0]
        if own in ours:
            return ours[own], own
    raise LauncherError(
        f"{socket.gethostname()} has no route to {', '.join(addresses)}; "
        "name the interface by --interface"
    )


def free_port(address: str) -> int:
    """A TCP port that no process here listens on. LauncherError if there is none."""
    for _ in range(_ATTEMPTS):
        port = random.choice(_PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as attempt:
            try:
                attempt.bind((address, port))
            except OSError:
                continue
            return port
    raise LauncherError(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free at {address}")

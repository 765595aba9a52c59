"""Where ranks of several hosts meet: which interface, and which port."""

import socket

import psutil
import pytest

from tuner.errors import LauncherError
from tuner.world.ray import host
from tuner.world.ray.host import Host


def test_the_interface_is_that_of_the_route() -> None:
    known = {
        address.address: name
        for name, addr in psutil.net_if_addrs().items()
        for address in addr
        if address.family == socket.AF_INET
    }
    assert host._own_addresses().items() <= known.items()
    assert Host.interface_to(["127.0.0.1"]) == ("lo", "127.0.0.1")


def test_a_named_interface_is_taken_whatever_the_route(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"127.0.0.1": "lo", "192.0.2.1": "eth1"}
    monkeypatch.setattr(host, "_own_addresses", lambda: known)
    assert Host.interface_to(["127.0.0.1"], "eth1") == ("eth1", "192.0.2.1")
    told = "has no interface eth2 with an IPv4 address; it has eth1, lo; name another"
    with pytest.raises(LauncherError, match=told):
        Host.interface_to(["127.0.0.1"], "eth2")
    told = "no route to 255.255.255.255; name the interface by --interface"
    with pytest.raises(LauncherError, match=told):
        Host.interface_to(["255.255.255.255"])


def test_a_port_where_somebody_listens_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(host, "_PORTS", range(port, port + 1))
        with pytest.raises(LauncherError, match=f"no port from {port} to {port} is free"):
            Host.free_port("127.0.0.1")

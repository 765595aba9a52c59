"""Where ranks of several hosts meet: which interface, and which port."""

import socket

import psutil
import pytest

from tuner.errors import LauncherError
from tuner.world.ray import host
from tuner.world.ray.host import Host


@pytest.fixture
def two_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with the loopback and an interface eth1; eth2 has no IPv4 address."""
    found = {"127.0.0.1": "lo", "192.0.2.1": "eth1"}
    monkeypatch.setattr(host, "_own_addresses", lambda: found)


def test_the_interface_is_that_of_the_route() -> None:
    known = {
        address.address: name
        for name, each in psutil.net_if_addrs().items()
        for address in each
        if address.family == socket.AF_INET
    }
    assert host._own_addresses().items() <= known.items()
    assert Host.interface_to(["127.0.0.1"]) == ("lo", "127.0.0.1")


def test_a_named_interface_is_taken_whatever_the_route(two_more: None) -> None:
    assert Host.interface_to(["127.0.0.1"]) == ("lo", "127.0.0.1")
    assert Host.interface_to(["127.0.0.1"], "eth1") == ("eth1", "192.0.2.1")


@pytest.mark.parametrize("named", ["eth2", "eth7"])
def test_an_interface_that_cannot_be_taken_is_told_with_those_there_are(
    two_more: None, named: str
) -> None:
    told = f"has no interface {named} with an IPv4 address; it has eth1, lo; name another by"
    with pytest.raises(LauncherError, match=told):
        Host.interface_to(["127.0.0.1"], named)


def test_a_host_without_a_route_to_the_others_is_told() -> None:
    nobody = "255.255.255.255"
    with pytest.raises(LauncherError, match=f"no route to {nobody}; name the interface by --int"):
        Host.interface_to([nobody])


def test_a_port_where_somebody_listens_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(host, "_PORTS", range(port, port + 1))
        with pytest.raises(LauncherError, match=f"no port from {port} to {port} is free"):
            Host.free_port("127.0.0.1")

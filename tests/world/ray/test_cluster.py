"""The first host of a cluster: silent for a while, or for good."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from testing.fakes import FakeClock
from tuner.world.ray import cluster
from tuner.world.ray.cluster import ASK_EVERY_S, ClusterLostError, FirstHost


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(cluster, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where Ray would listen; nobody listens there yet."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        name: tuple[str, int] = bound.getsockname()
        monkeypatch.setattr(cluster, "_place", lambda: name)
        yield bound


def checks(first: FirstHost, clock: FakeClock, seconds: float) -> None:
    """Ask for so long."""
    until_s = clock() + seconds
    while clock() < until_s:
        first.check()
        clock.advance(1.0)


@pytest.mark.parametrize(("ray_ends_s", "told"), [("60", "30s"), ("300", "2m30s")])
def test_one_that_is_silent_for_half_the_time_that_ray_gives_it_is_lost(
    clock: FakeClock, place: socket.socket, monkeypatch: pytest.MonkeyPatch, ray_ends_s: str,
    told: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", ray_ends_s)
    first = FirstHost()
    checks(first, clock, int(ray_ends_s) / 2 - 1)
    with pytest.raises(ClusterLostError, match=f"at 127.0.0.1, has given no answer for {told}. W"):
        checks(first, clock, 1 + 2 * ASK_EVERY_S)


def test_one_that_comes_back_has_all_the_time_again(clock: FakeClock, place: socket.socket) -> None:
    first = FirstHost()
    checks(first, clock, 29)
    place.listen()
    assert first.answers()
    place.close()
    clock.advance(ASK_EVERY_S)
    checks(first, clock, 29)
    assert not first.answers()

"""Servers of which the truth is known: each gets calls that sleep, all in flight at once."""

import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed.rpc as rpc

from workloads.contract import Rank, Workload, World

CALLS = 8
LOCKED_NAP_S, NAP_S = 0.002, 0.05
ELEMENTS = 1_000_000  # float32
_lock = threading.Lock()
_naps: list[tuple[int, int]] = []


class _OneServer(Workload):
    """worker0 calls worker1."""

    def ranks(self) -> Sequence[Rank]:
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]


def nap_locked() -> None:
    with _lock:
        time.sleep(LOCKED_NAP_S)


class OneLock(_OneServer):
    """Its calls wait for each other: no number of threads makes it faster."""

    def step(self, world: World) -> None:
        (server,) = world.names("server")
        begun_s = time.monotonic()
        for future in [rpc.rpc_async(server, nap_locked) for _ in range(CALLS)]:
            future.wait()
        if time.monotonic() - begun_s < CALLS * LOCKED_NAP_S:
            raise AssertionError("the calls did not wait for each other")


def nap(tensor: torch.Tensor) -> float:
    """Sleep, and note from when to when, in Unix nanoseconds."""
    begun_ns = time.time_ns()
    time.sleep(NAP_S)
    _naps.append((begun_ns, time.time_ns()))
    return float(tensor[-1])


def noted() -> tuple[str, list[tuple[int, int]]]:
    """The network namespace of this process, and the naps there."""
    return os.readlink("/proc/self/ns/net"), _naps  # noqa: PTH115


class Megabytes(_OneServer):
    """Its calls bring 4 MB each, and it notes itself when each of them ran."""

    notes: str = "."
    """The folder where each world leaves what its ranks have noted."""

    def setup(self, world: World) -> None:
        self._tensor = torch.ones(ELEMENTS)

    def step(self, world: World) -> None:
        (server,) = world.names("server")
        futures = [rpc.rpc_async(server, nap, args=(self._tensor,)) for _ in range(CALLS)]
        self._answers = [future.wait() for future in futures]

    def check(self, world: World) -> None:
        (server,) = world.names("server")
        if self._answers != [1.0] * CALLS:
            raise AssertionError(f"the server saw {self._answers}")
        found = [noted(), rpc.rpc_sync(server, noted)]
        (Path(self.notes) / f"{time.time_ns()}.json").write_text(json.dumps(found))

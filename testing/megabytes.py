"""A server on another host of which the truth is known: it gets calls that sleep, all at once."""

import json
import os
import time
from pathlib import Path

import psutil
import torch
import torch.distributed.rpc as rpc

from testing.served_together import Sleeps
from workloads import World

CALLS = 8
NAP_S = 0.05
ELEMENTS = 1_000_000  # float32
_naps: list[tuple[int, int]] = []


def nap(tensor: torch.Tensor) -> float:
    """Sleep, and note from when to when, in Unix nanoseconds."""
    begun_ns = time.time_ns()
    time.sleep(NAP_S)
    _naps.append((begun_ns, time.time_ns()))
    return float(tensor[-1])


def noted() -> list[object]:
    """The network namespace of this process, its interface, the addresses that it listens on, and
    the naps there."""
    connections = psutil.Process().net_connections(kind="inet")
    listening = sorted({c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN})
    namespace = os.readlink("/proc/self/ns/net")  # noqa: PTH115
    return [namespace, os.environ["TP_SOCKET_IFNAME"], listening, _naps]


class Megabytes(Sleeps):
    """Its calls bring 4 MB each, and it notes itself when each of them ran."""

    notes: str = "."
    """The folder where each world leaves what its ranks have noted."""

    def setup(self, world: World) -> None:
        self._tensor = torch.ones(ELEMENTS)

    def step(self, world: World) -> None:
        futures = [rpc.rpc_async("worker1", nap, args=(self._tensor,)) for _ in range(CALLS)]
        self._answers = [future.wait() for future in futures]

    def check(self, world: World) -> None:
        if self._answers != [1.0] * CALLS:
            raise AssertionError(f"the server saw {self._answers}")
        found = [noted(), rpc.rpc_sync("worker1", noted)]
        (Path(self.notes) / f"{time.time_ns()}.json").write_text(json.dumps(found))

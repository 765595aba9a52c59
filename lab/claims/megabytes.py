"""Calls that bring 4 MB and sleep, and a server that notes itself when each of them ran."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed.rpc as rpc

from workloads.contract import Rank, Workload, World

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


def noted() -> tuple[str, list[tuple[int, int]]]:
    """The network namespace of this process, and the naps there."""
    return os.readlink("/proc/self/ns/net"), _naps  # noqa: PTH115


class Megabytes(Workload):
    """worker0 calls worker1, all calls in flight at once."""

    notes: str = "."
    """The folder where each world leaves what its ranks have noted."""

    def ranks(self) -> Sequence[Rank]:
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]

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

"""A workload for worlds on several hosts."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import psutil
import torch
import torch.distributed.rpc as rpc

from workloads import Rank, Workload, World


def sum_of(tensor: torch.Tensor) -> float:
    return float(tensor.sum())


def whereabouts() -> list[object]:
    """The network namespace, the interface, and the addresses that it listens on."""
    connections = psutil.Process().net_connections(kind="inet")
    listening = sorted({c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN})
    namespace = os.readlink("/proc/self/ns/net")  # noqa: PTH115
    return [namespace, os.environ["TP_SOCKET_IFNAME"], listening]


class Payload(Workload):
    """Sends megabytes to a server on another host."""

    mb: int = 4
    told: str = ""
    """Where rank 0 writes what it has found out of the ranks."""

    def ranks(self) -> Sequence[Rank]:
        return [Rank("caller0", "caller"), Rank("server0", "server")]

    def setup(self, world: World) -> None:
        self.tensor = torch.ones(self.mb * 250_000)

    def step(self, world: World) -> None:
        self.sum = rpc.rpc_sync("server0", sum_of, args=(self.tensor,))

    def check(self, world: World) -> None:
        assert self.sum == self.mb * 250_000
        if self.told:
            found = [whereabouts(), rpc.rpc_sync("server0", whereabouts)]
            Path(self.told).write_text(json.dumps(found))

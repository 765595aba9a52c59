"""A server whose calls wait for each other: no number of threads makes it faster."""

import threading
import time
from collections.abc import Sequence

import torch.distributed.rpc as rpc

from workloads.contract import Rank, Workload, World

CALLS = 8
NAP_S = 0.002
_lock = threading.Lock()


def nap() -> None:
    with _lock:
        time.sleep(NAP_S)


class OneLock(Workload):
    """worker0 calls worker1, all calls in flight at once."""

    def ranks(self) -> Sequence[Rank]:
        return [Rank(name="worker0", role="caller"), Rank(name="worker1", role="server")]

    def step(self, world: World) -> None:
        (server,) = world.names("server")
        begun_s = time.monotonic()
        for future in [rpc.rpc_async(server, nap) for _ in range(CALLS)]:
            future.wait()
        if time.monotonic() - begun_s < CALLS * NAP_S:
            raise AssertionError("the calls did not wait for each other")

"""Workloads whose server's calls run at once, or wait for one lock."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import torch.distributed.rpc as rpc
from torch.futures import Future

from workloads import Rank, Workload, World

_lock = threading.Lock()


def sleep_with_lock(seconds: float) -> None:
    with _lock:
        time.sleep(seconds)


def count(rounds: int) -> int:
    return sum(range(rounds))


class Sleeps(Workload):
    """Eight calls at once, each of which sleeps."""

    seconds: float = 0.01
    """How long."""

    def ranks(self) -> Sequence[Rank]:
        return [Rank("worker0", "caller"), Rank("worker1", "server")]

    def step(self, world: World) -> None:
        for future in [self.call() for _ in range(8)]:
            future.wait()

    def call(self) -> Future[Any]:
        return rpc.rpc_async("worker1", time.sleep, args=(self.seconds,))  # type: ignore[no-any-return]


class OneLock(Sleeps):
    """The same under one lock."""

    def call(self) -> Future[Any]:
        return rpc.rpc_async("worker1", sleep_with_lock, args=(self.seconds,))  # type: ignore[no-any-return]


class HoldsGil(Sleeps):
    """Eight calls at once that compute in Python."""

    def call(self) -> Future[Any]:
        return rpc.rpc_async("worker1", count, args=(200_000,))  # type: ignore[no-any-return]

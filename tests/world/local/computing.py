"""Workloads whose server computes in Python while it serves, or remembers what it had before."""

import math
import sys
import threading
import time
from collections.abc import Sequence

import torch.distributed.rpc as rpc

from workloads import Rank, Workload, World

_is_over = threading.Event()
_known = [0.0, 0.0]
MEMORY_S = 0.3


def _compute() -> None:
    total = 0
    while not _is_over.is_set():
        for number in range(10_000):
            total += number * number


def no_op() -> None:
    """Nothing: it only needs the GIL."""


def answer_by_memory() -> None:
    """Take four times as long as the switch interval, which this gets used to slowly."""
    now_s = time.monotonic()
    used_to = math.exp((_known[0] - now_s) / MEMORY_S)
    _known[:] = now_s, used_to * _known[1] + (1 - used_to) * sys.getswitchinterval()
    time.sleep(4 * _known[1])


class Learner(Workload):
    """An actor calls a learner that computes."""

    calls: int = 1
    """Calls in a step."""

    def ranks(self) -> Sequence[Rank]:
        return [Rank("actor", "actor"), Rank("learner", "learner")]

    def setup(self, world: World) -> None:
        if world.role == "learner":
            self.thread = threading.Thread(target=_compute, daemon=True)
            self.thread.start()

    def step(self, world: World) -> None:
        for _ in range(self.calls):
            rpc.rpc_sync("learner", no_op)

    def teardown(self, world: World) -> None:
        if world.role == "learner":
            _is_over.set()
            self.thread.join()


class Remembers(Learner):
    """An actor calls a server whose answers depend on what it had a while ago."""

    def setup(self, world: World) -> None:
        """Nothing computes."""

    def step(self, world: World) -> None:
        rpc.rpc_sync("learner", answer_by_memory)

    def teardown(self, world: World) -> None:
        """Nothing computes."""

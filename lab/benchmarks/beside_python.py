"""Workloads one rank of which computes in Python while it serves, or calls."""

import threading
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed.rpc as rpc

from workloads import Rank, Workload, World

_is_over = threading.Event()


def _in_python() -> None:
    total = 0
    while not _is_over.is_set():
        for number in range(10_000):
            total += number * number


def _now_and_then() -> None:
    while not _is_over.is_set():
        until_s = time.perf_counter() + 0.02
        while time.perf_counter() < until_s:
            pass
        time.sleep(0.03)


def _with_operators() -> None:
    matrix = torch.ones(400, 400)
    while not _is_over.is_set():
        until_s = time.perf_counter() + 0.002
        while time.perf_counter() < until_s:
            pass
        matrix @ matrix


def no_op() -> None:
    """Nothing: it only needs the GIL."""


def compute(number: int = 60_000) -> int:
    """Some milliseconds of Python."""
    return sum(each * each for each in range(number))


def operators(tensor: torch.Tensor) -> torch.Tensor:
    """Each of these lets go of the GIL."""
    for _ in range(5):
        tensor = torch.relu(tensor @ tensor) * 0.01
    return tensor


class Learner(Workload):
    """An actor calls a learner that computes."""

    _computes: Callable[[], None] | None = staticmethod(_in_python)
    _role = "learner"

    def ranks(self) -> Sequence[Rank]:
        return [Rank("actor", "actor"), Rank("learner", "learner")]

    def setup(self, world: World) -> None:
        torch.set_num_threads(1)
        self.thread = None
        if world.role == self._role and self._computes is not None:
            self.thread = threading.Thread(target=self._computes, daemon=True)
            self.thread.start()

    def step(self, world: World) -> None:
        for _ in range(4):
            rpc.rpc_sync("learner", no_op)

    def teardown(self, world: World) -> None:
        _is_over.set()
        if self.thread is not None:
            self.thread.join()


class Actor(Learner):
    """It is the actor that computes beside its calls."""

    _role = "actor"


class HalfTheTime(Learner):
    """The learner computes for less than half of the time."""

    _computes = staticmethod(_now_and_then)


class LetsGo(Learner):
    """The learner lets go of the GIL every two milliseconds."""

    _computes = staticmethod(_with_operators)


class Nobody(Learner):
    """Nobody computes."""

    _computes = None


class Payload(Learner):
    """The calls carry a megabyte."""

    def step(self, world: World) -> None:
        for _ in range(2):
            rpc.rpc_sync("learner", len, args=(torch.ones(1 << 18),))


class Operators(Learner):
    """The calls run operators, which let go of the GIL."""

    def step(self, world: World) -> None:
        for _ in range(2):
            rpc.rpc_sync("learner", operators, args=(torch.ones(64, 64),))


class Computes(Learner):
    """The calls compute in Python, too."""

    def step(self, world: World) -> None:
        for _ in range(2):
            rpc.rpc_sync("learner", compute)


class Sleeps(Learner):
    """The calls sleep for 20 ms."""

    def step(self, world: World) -> None:
        for _ in range(2):
            rpc.rpc_sync("learner", time.sleep, args=(0.02,))


class AtOnce(Learner):
    """Eight calls at once."""

    def step(self, world: World) -> None:
        for each in [rpc.rpc_async("learner", no_op) for _ in range(8)]:
            each.wait()


class Full(Nobody):
    """The calls alone hold the GIL."""

    def step(self, world: World) -> None:
        for each in [rpc.rpc_async("learner", compute) for _ in range(8)]:
            each.wait()


class LongAndShort(Nobody):
    """Short calls beside a long one."""

    def step(self, world: World) -> None:
        long = rpc.rpc_async("learner", compute, args=(600_000,))
        for _ in range(4):
            rpc.rpc_sync("learner", no_op)
        long.wait()

"""Workloads for the local launcher's tests; most go wrong, each in its own way."""

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed.rpc as rpc

from tuner.trace.record.driver import TraceDriver
from workloads import Rank, Workload, World


def call_back(name: str) -> float:
    return float(rpc.rpc_sync(name, time.time))


def call_back_by_rref(name: str) -> float:
    return float(rpc.remote(name, time.time).to_here())


def call_back_and_wait(name: str) -> None:
    rpc.rpc_async(name, time.time)
    wait = time.sleep  # it has nothing to do with calls
    wait(1.2)


def refuses(row: int) -> None:
    raise ValueError(f"bad row {row}")


class Pair(Workload):
    def ranks(self) -> Sequence[Rank]:
        return [Rank("worker0", "caller"), Rank("worker1", "server")]

    def step(self, world: World) -> None:
        rpc.rpc_sync("worker1", torch.add, args=(torch.ones(1), 1))


def pair(**methods: Callable[..., object]) -> type[Pair]:
    """A pair that does something else in these methods."""
    return type("Trouble", (Pair,), methods)


def by_server(method: Callable[..., object]) -> Callable[[Workload, World], object]:
    """A method that does it on the server alone."""
    return lambda self, world: method() if world.role == "server" else None


def fail(error: BaseException) -> None:
    print("about to fail")
    raise error


def call_of(function: Callable[..., object], *arguments: object) -> Callable[..., object]:
    """A step that calls a function of the server."""
    return lambda self, world: rpc.rpc_sync("worker1", function, args=arguments)


# Deadlocks with one thread; the second one by way of a remote reference.
Nested = pair(step=call_of(call_back, "worker0"))
NestedByRRef = pair(step=call_of(call_back_by_rref, "worker0"))
ServerAborts = pair(step=call_of(os.abort))
Dozes = pair(step=call_of(time.sleep, 600.0))
ServedRaises = pair(step=call_of(refuses, 7))
# Looks stuck for a while: as many calls are out as there are threads, and all wait.
WaitsForItsOwn = pair(step=call_of(call_back_and_wait, "worker0"))
WrongAnswer = pair(check=lambda self, world: fail(ValueError("2 is not 3")))
SetupFails = pair(setup=by_server(lambda: fail(KeyError("nothing here"))))
Exits = pair(step=lambda self, world: os._exit(3))
TeardownHangs = pair(teardown=by_server(lambda: time.sleep(600)))
TwiceTheSameName = pair(ranks=lambda self: [Rank("worker0", "caller"), Rank("worker0", "server")])
NobodyThere = pair(ranks=lambda self: [])
# Overrides a process knob that its configuration sets.
SetsItsOwn = pair(setup=lambda self, world: sys.setswitchinterval(0.02))


class NoSteps(Workload):
    def ranks(self) -> Sequence[Rank]:
        return [Rank("worker0", "caller")]


class Leaves(Pair):
    """Goes to another working folder as soon as it can."""

    folder: str = ""

    def setup(self, world: World) -> None:
        os.makedirs(self.folder, exist_ok=True)  # noqa: PTH103
        os.chdir(self.folder)


class BareAssert(Pair):
    def check(self, world: World) -> None:
        assert world.rank < 0


class Burns(Pair):
    """Each step takes 20 ms of rank 0's CPU time, and leaves the server asleep."""

    def step(self, world: World) -> None:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass


class Remembers(Pair):
    """Fails its check unless setup, steps and check share one object and one world."""

    def setup(self, world: World) -> None:
        self.world, self.steps = world, 0

    def step(self, world: World) -> None:
        self.steps += 1

    def check(self, world: World) -> None:
        assert self.world is world
        assert [*world.names("caller"), *world.names("server")] == ["worker0", "worker1"]
        assert (world.name, world.role, world.seed) == ("worker0", "caller", 7)
        assert self.steps > 5
        assert torch.get_num_threads() == 1


class Listens(Pair):
    """Fails its check with the addresses that this rank listens on."""

    def check(self, world: World) -> None:
        import psutil

        connections = psutil.Process().net_connections(kind="inet")
        listening = sorted({c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN})
        raise AssertionError(f"listening on {listening}")


class TracesItself(Pair):
    """Cannot be traced from outside, since it is already."""

    def setup(self, world: World) -> None:
        if world.rank == 0:
            TraceDriver(operators=False, drain_s=1.0).start()


def leave_daemons(count: int) -> None:
    """Each in a session of its own."""
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1200)
            os._exit(0)


class LeavesDaemons(Pair):
    """Leaves daemons; then it does what it is told to."""

    then: str = "goes on"

    def setup(self, world: World) -> None:
        leave_daemons(3)

    def step(self, world: World) -> None:
        if self.then == "dies":
            os._exit(1)
        if self.then == "hangs":
            time.sleep(1200)


def network() -> str:
    return os.readlink("/proc/self/ns/net")  # noqa: PTH115


class Where(Pair):
    """Wrong unless both ranks are in this network, or in another one of their `own`."""

    network: str = ""
    own: bool = True
    reaches_others: bool = False

    def step(self, world: World) -> None:
        self.there = {network(), rpc.rpc_sync("worker1", network)}
        # Large enough for one process to read it from the other's memory.
        rpc.rpc_sync("worker1", torch.add, args=(torch.ones(400_000), 1))
        if self.reaches_others:
            socket.create_connection(("192.0.2.1", 80), timeout=5)

    def check(self, world: World) -> None:
        assert len(self.there) == 1
        assert (self.network not in self.there) == self.own
        socket.create_server(("127.0.0.1", 0)).close()


def affinities() -> list[tuple[int, ...]]:
    threads = os.listdir("/proc/self/task")  # noqa: PTH208
    return sorted({tuple(sorted(os.sched_getaffinity(int(thread)))) for thread in threads})


class Bound(Pair):
    """Wrong unless the threads of a rank all have its share of the logical CPUs, and no other."""

    def step(self, world: World) -> None:
        (here,), (there,) = affinities(), rpc.rpc_sync("worker1", affinities)
        assert len(here) == len(there)
        assert not {*here} & {*there}

"""What bug reports show: calls that fail, end late, or come when RPC starts and ends.

python situations.py PORT: which one stands in the environment, as SITUATION, which names a
function. Each prints what its ranks see, line by line, and its number of calls last.
"""

import os
import pickle
import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.rpc import api, internal

LATE_S = 0.6
PAUSE_S = 7.0
"""Longer than ranks do nothing that wait in vain."""
_spawn = mp.get_context("spawn")
_kept: list[Any] = []


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def store(number: int) -> None:
    time.sleep(0.002)
    if number % 2:
        raise KeyError(f"shard {number}")
    _kept.append(number)


def stored() -> int:
    return len(_kept)


def kept(value: Any) -> None:
    _kept.append(value)


def begin(rank: int, port: int, size: int | None = 2, **options: Any) -> None:
    name = f"server{rank}" if rank else "client"
    given = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}", **options)
    rpc.init_rpc(name, rank=rank, world_size=size, rpc_backend_options=given)


def attempt(label: str, action: Callable[[], object]) -> None:
    try:
        print(label, "->", action())
    except Exception as error:
        print(label, "->", type(error), str(error).split("\n")[0])


def counted(calls: int) -> None:
    print(f"calls: {calls}", flush=True)


def silent() -> None:
    """Half of the calls raise, and the program waits for none of them."""
    for number in range(40):
        rpc.rpc_async("server1", store, args=(number,))
    asked = 1
    while rpc.rpc_sync("server1", stored) < 20:
        time.sleep(0.01)
        asked += 1
    counted(40 + asked)


def remote() -> None:
    """Objects that could not be made, which nothing asks for, and calls that raise."""
    _kept.extend(rpc.remote("server1", store, args=(number,)) for number in (1, 3, 5))
    for number in (2, 4):
        rpc.rpc_sync("server1", store, args=(number,))
    attempt("raises", lambda: rpc.rpc_sync("server1", store, args=(7,)))
    counted(6)


def limits(rank: int, port: int) -> None:
    """Time limits of `remote` and `to_here`, and a default that changes in the middle."""
    begin(rank, port, rpc_timeout=0.3)
    if rank == 0:
        made = partial(rpc.remote, "server1", nap, args=(LATE_S,), timeout=5.0)
        attempt("to_here is short", lambda: made().to_here(0.2))
        attempt("to_here is long", lambda: made().to_here(5.0))
        attempt("the default", lambda: rpc.rpc_sync("server1", nap, args=(LATE_S,)))
        attempt("no limit", lambda: rpc.rpc_sync("server1", nap, args=(LATE_S,), timeout=0))
        rpc._set_rpc_timeout(5)
        attempt("a new default", lambda: rpc.rpc_sync("server1", nap, args=(LATE_S,)))
        counted(7)  # each `to_here` is one, too
    rpc.shutdown()


def still_sending(rank: int, port: int) -> None:
    """Threads that send while the main thread calls `shutdown`, which waits for what they sent."""
    begin(rank, port)
    answered = [0, 0, 0]

    def send(number: int) -> None:
        try:
            for _ in range(30):
                rpc.rpc_sync("server1", nap, args=(0.02,))
                answered[number] += 1
        except RuntimeError:
            pass  # RPC is shut down

    threads = [threading.Thread(target=send, args=(n,), daemon=True) for n in range(3)]
    for thread in threads if rank == 0 else []:
        thread.start()
    time.sleep(0.2)
    rpc.shutdown()
    if rank == 0:
        for thread in threads:
            thread.join(10)
        print(f"many {sum(answered) > 9}, alive {sum(thread.is_alive() for thread in threads)}")
        counted(sum(answered))


def left_alive(rank: int, port: int) -> None:
    """References to remote objects that live when RPC is shut down."""
    begin(rank, port)
    if rank == 0:
        _kept.append(rpc.remote("server1", max, args=(1, 2)))
        _kept.append(_kept[0].to_here())
        rpc.rpc_sync("server1", kept, args=(rpc.RRef(torch.ones(3)),))
        counted(3)
    rpc.shutdown()
    attempt("afterwards", lambda: _kept[0].to_here() if rank == 0 else stored())


def gives(number: int) -> torch.Tensor:
    return torch.full((2,), float(number))


def loads_data() -> None:
    """A rank with the worker processes of a DataLoader, which are forked from it."""
    rows: Any = [gives(number) for number in range(16)]
    total = 0.0
    for batch in torch.utils.data.DataLoader(rows, batch_size=4, num_workers=2):
        total += float(rpc.rpc_sync("server1", torch.sum, args=(batch,)))
    print("total", total)
    counted(4)


class CountingPickler(internal._InternalRPCPickler):
    def serialize(self, obj: Any) -> Any:
        assert type(obj) is internal.PythonUDF, type(obj)
        data, tensors = super().serialize(obj)
        print(f"{obj.func.__name__}: {len(data), len(pickle.dumps(obj.args))} bytes")
        return data, tensors


def own_pickler() -> None:
    """A pickler of its own in the place of RPC's."""
    with api._use_rpc_pickler(CountingPickler()):
        attempt("counted", lambda: rpc.rpc_sync("server1", nap, args=(0.001,)))
        attempt("counted remote", lambda: rpc.remote("server1", gives, args=(2,)).to_here())
        attempt("raises", lambda: rpc.rpc_sync("server1", store, args=(1,)))
    attempt("the usual one", lambda: rpc.rpc_sync("server1", gives, args=(3,)))
    counted(5)


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def many_lives(rank: int, port: int) -> None:
    """RPC is started 70 times in a process that may have few files open."""
    for life in range(70):
        begin(rank, port + life % 2)
        if life == 1:
            opened = open_files()
            resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 100, opened + 100))
            threads = threading.active_count()
            memory_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if rank == 0:
            rpc.rpc_sync("server1", gives, args=(life,))
        rpc.shutdown()
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_kb) / 1024
    few = open_files() < opened + 20
    more = threading.active_count() > threads
    print(f"rank {rank}: few files {few}, more threads {more}, little memory {grown_mb < 50}")
    if rank == 0:
        counted(70)


def tries_again(rank: int, port: int) -> None:
    """RPC cannot be started 20 times; then it is, and once more while it runs."""
    for life in range(20):
        if life == 1:
            opened, threads = open_files(), threading.active_count()
        with suppress(RuntimeError):
            begin(rank, port, _transports=["none"])
    more = open_files() - opened, threading.active_count() - threads
    print(f"rank {rank}: more files and threads: {more}")
    begin(rank, port)
    attempt("again", lambda: begin(rank, port))
    if rank == 0:
        print(rpc.rpc_sync("server1", max, args=(1, 2)))
        counted(1)
    rpc.shutdown()
    attempt("once more", rpc.shutdown)


def joins(rank: int, port: int, done: Any) -> None:
    time.sleep(0.3 * rank)
    begin(rank, port, None)
    if rank:
        got = sum(rpc.rpc_sync("client", max, args=(1, 2)) for _ in range(9))
        print(f"server{rank} got {got}", flush=True)
    done.wait()
    rpc.shutdown()


def joins_late(port: int) -> None:
    """No rank knows how many there are."""
    done = _spawn.Barrier(3)
    ranks = [_spawn.Process(target=joins, args=(rank, port, done)) for rank in range(3)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    print([each.exitcode for each in ranks])
    counted(18)


@torch.jit.script
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.jit.script
def through(to: str, x: torch.Tensor) -> torch.Tensor:
    got: torch.Tensor = rpc.rpc_sync(to, doubled, (x,)) + 1
    return got


def asks_script(x: torch.Tensor) -> torch.Tensor:
    got: torch.Tensor = through("server2", x)
    return got


def call_scripts(asked: Callable[..., torch.Tensor]) -> None:
    print(sum(float(rpc.rpc_sync("server1", asked, (torch.ones(1),))) for _ in range(20)))
    counted(20)


def script_inside() -> None:
    """A served function runs TorchScript, which calls another rank and waits for it."""
    call_scripts(asks_script)


def script_only() -> None:
    """All calls are of a script function, which is served without Python."""
    call_scripts(doubled)


def both_ways(rank: int, port: int) -> None:
    """Two processes that call each other for two seconds; each tells when it made its calls.

    The first one computes meanwhile, so that its other threads get the GIL late.
    """
    begin(rank, port)
    made_ns, until = [], time.monotonic() + 2
    while time.monotonic() < until:
        futures = []
        for _ in range(3):
            made_ns.append(time.time_ns())
            futures.append(rpc.rpc_async("client" if rank else "server1", nap, args=(0.001,)))
        while rank == 0 and not all(future.done() for future in futures):
            pass
        torch.futures.wait_all(futures)
        time.sleep(0.05 * rank)
    print(f"{rank} made: {made_ns}", flush=True)
    rpc.shutdown()


def retries() -> None:
    """Long after a call has raised it is made once more."""
    attempt("raises", lambda: rpc.rpc_sync("server1", store, args=(1,)))
    time.sleep(PAUSE_S)
    rpc.rpc_sync("server1", store, args=(2,))
    counted(2)


def serves(rank: int, port: int) -> None:
    begin(rank, port)
    threading.Event().wait()


def called(port: int) -> BaseProcess:
    """A server that serves until its parent ends it."""
    server = _spawn.Process(target=serves, args=(1, port))
    server.start()
    begin(0, port)
    futures = [rpc.rpc_async("server1", nap, args=(0.002,)) for _ in range(50)]
    print(f"total {sum(future.wait() for future in futures):.2f}")
    return server


def killed(port: int) -> None:
    """Of SIGKILL a server cannot know."""
    server = called(port)
    rpc.shutdown(graceful=False)
    server.kill()
    server.join()
    print(f"exit code {server.exitcode}")
    counted(50)


def ends_shutdown(port: int) -> None:
    """Its `shutdown` waits for a rank that is gone, and has a time limit."""
    server = called(port)
    server.kill()
    server.join()
    with suppress(RuntimeError):
        rpc.shutdown(timeout=PAUSE_S)
    counted(50)


def drive(rank: int, port: int, chosen: Callable[[], None], size: int) -> None:
    begin(rank, port, size)
    if rank == 0:
        chosen()
    rpc.shutdown()


DRIVEN = {silent: 2, remote: 2, loads_data: 2, own_pickler: 2, retries: 2,
          script_inside: 3, script_only: 3}  # fmt: skip
"""What rank 0 does, in a world of so many."""
SPAWNED = (limits, still_sending, left_alive, tries_again, many_lives, both_ways)
"""What two ranks do."""

if __name__ == "__main__":
    port, chosen = int(sys.argv[1]), globals()[os.environ["SITUATION"]]
    if chosen in DRIVEN:
        mp.spawn(drive, args=(port, chosen, DRIVEN[chosen]), nprocs=DRIVEN[chosen])
    elif chosen in SPAWNED:
        mp.spawn(chosen, args=(port,), nprocs=2)
    else:  # it starts its processes itself
        chosen(port)

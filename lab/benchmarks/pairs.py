"""Programs and their edits: `pairs.py PAIR EDIT PORT`; rank 0 prints how many seconds it took.

The edit is `-`, for the program as it is, or what was changed in it.
"""

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

FOUR = [f"worker{1 + i % 4}" for i in range(64)]
LOCK = threading.Lock()
W, W8 = torch.ones(64, 64), torch.ones(1000, 8)
HUGE = {megabytes: torch.ones(megabytes << 18) for megabytes in (2, 4)}
NAMED = {f"weight{i}": [0.5 * i, i] for i in range(20_000)}


def nothing(*_: object) -> None:
    """Serve a call that does nothing."""


def look_up(key: int) -> int:
    """Wait for 2 ms, as for a disk."""
    time.sleep(0.002)
    return key


def expert(row: torch.Tensor) -> torch.Tensor:
    """Compute a little."""
    return torch.relu(row @ W)


def heavy(number: int) -> int:
    """Compute in Python: 10,000 take some 0.5 ms."""
    return sum(i * i for i in range(number))


def locked(ms: float) -> None:
    """Wait while others may not."""
    with LOCK:
        time.sleep(ms / 1e3)


WAITING: list[torch.futures.Future[None]] = []


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def locked_batch(ms: float) -> torch.futures.Future[None]:
    """Wait once for the calls of four callers, when all have come."""
    own: torch.futures.Future[None] = torch.futures.Future()
    with LOCK:
        WAITING.append(own)
        if len(WAITING) == 4:
            time.sleep(ms / 1e3)
            for each in WAITING:
                each.set_result(None)
            WAITING.clear()
    return own


def unlocked(ms: float) -> None:
    """Wait beside others."""
    time.sleep(ms / 1e3)


def huge(megabytes: int) -> torch.Tensor:
    """Answer with so much."""
    return HUGE[megabytes]


def large(number: int) -> torch.Tensor:
    """Answer with 256 KB."""
    return torch.ones(1 << 16) * number


def parts(number: int, way: str) -> object:
    """Answer with so many tensors, or with one of so many numbers."""
    return torch.arange(number) if way == "tensors" else [torch.tensor(i) for i in range(number)]


def pushed(pickled: bytes) -> None:
    """Unpickle an argument that was pickled once."""
    pickle.loads(pickled)


def push(way: str) -> None:
    """Send the same object to four servers."""
    pickled = pickle.dumps(NAMED) if way == "pickle-once" else b""
    for server in FOUR[:4]:
        if pickled:
            rpc.rpc_sync(server, pushed, args=(pickled,))
        else:
            rpc.rpc_sync(server, nothing, args=(NAMED,))


def send_rows(way: str) -> None:
    """Send a matrix, as its rows or as a whole."""
    rpc.rpc_sync("worker1", nothing, args=(W8 if way == "tensors" else [*W8.unbind()],))


def fetch(way: str) -> None:
    """Fetch one value, five times."""
    made = rpc.remote("worker1", large, args=(1,))
    for number in range(5):
        if number == 0 or way != "fetch-once":
            made.to_here()


def sampled(way: str) -> None:
    """Learn from each sample; the next one may be fetched meanwhile."""
    ahead = rpc.rpc_async("worker1", look_up, args=(0,)) if way == "ahead" else None
    for number in range(1, 17):
        if ahead is None:
            rpc.rpc_sync("worker1", look_up, args=(number,))
        else:
            ahead.wait()
            ahead = rpc.rpc_async("worker1", look_up, args=(number,))
        heavy(30_000)


def each_of(function: Callable[[object], object], arguments: list[object]) -> list[object]:
    """Do what many calls did."""
    return [function(argument) for argument in arguments]


def gathers(way: str) -> None:
    """Call another server, time and again."""
    on_all(way, look_up, ["worker2"] * 8, [*range(8)])


def on_all(
    way: str, function: Callable[..., object], servers: list[str], arguments: list[object]
) -> None:
    """Call a function with each argument: one after another, together, or once per server."""
    pairs = list(zip(servers, arguments, strict=True))
    if way == "together":
        for future in [rpc.rpc_async(server, function, args=(each,)) for server, each in pairs]:
            future.wait()
    elif way == "one-call":
        mine = {name: [each for server, each in pairs if server == name] for name in servers}
        asked = [rpc.rpc_async(n, each_of, args=(function, own)) for n, own in mine.items()]
        for future in asked:
            future.wait()
    else:
        for server, each in pairs:
            rpc.rpc_sync(server, function, args=(each,))


def waited(way: str) -> None:
    """Wait for each future at once."""
    if way == "together":
        return on_all(way, look_up, ["worker1"] * 16, [*range(16)])
    for key in range(16):
        rpc.rpc_async("worker1", look_up, args=(key,)).wait()
    return None


def fetched(way: str) -> None:
    """Fetch what each call has made."""
    if way == "together":
        made = [rpc.remote("worker1", look_up, args=(key,)) for key in range(16)]
        for each in made:
            each.to_here()
        return
    for key in range(16):
        rpc.remote("worker1", look_up, args=(key,)).to_here()


def at_once(function: Callable[..., object], argument: object, servers: int = 1) -> None:
    """Eight calls at once."""
    names = [f"worker{1 + each % servers}" for each in range(8)]
    on_all("together", function, names, [argument] * 8)


def thinking(way: str) -> None:
    """Compute between calls."""
    for key in range(8):
        rpc.rpc_sync("worker1", look_up, args=(key,))
        heavy(10_000 if way == "driver=faster:2" else 20_000)


def paced(way: str) -> None:
    """Sleep after each step."""
    on_all("-", look_up, ["worker1"] * 8, [*range(8)])
    if way != "driver=no-sleep":
        time.sleep(0.03)


Step = Callable[[str], None]
PAIRS: dict[str, tuple[int, int, Step, tuple[str, ...]]] = {
    "nothing": (2, 200, lambda way: on_all(way, nothing, ["worker1"] * 20, [*range(20)]),
                ("nothing=together", "nothing=one-call")),
    "look_up": (2, 25, lambda way: on_all(way, look_up, ["worker1"] * 16, [*range(16)]),
                ("look_up=together", "look_up=one-call")),
    "experts": (5, 30, lambda way: on_all(way, expert, FOUR, [*torch.ones(64, 64).unbind()]),
                ("expert=together", "expert=one-call")),
    "heavy": (2, 50, lambda way: on_all(way, heavy, ["worker1"] * 8, [20_000] * 8),
              ("heavy=together", "callers=2", "callers=4")),
    "full": (2, 40, lambda way: at_once(heavy, 20_000 if way == "faster:2" else 40_000,
                                        2 if way == "2" else 1), ("heavy=faster:2", "servers=2")),
    "waited": (2, 25, waited, ("look_up=together",)),
    "fetched": (2, 25, fetched, ("look_up=together",)),
    "gathers": (3, 40, lambda way: rpc.rpc_sync("worker1", gathers, args=(way,)),
                ("look_up=together",)),
    "thinking": (2, 50, thinking, ("driver=faster:2", "look_up=faster:2")),
    "locked": (2, 40, lambda way: at_once(unlocked if way == "no" else locked, 3,
                                          2 if way == "2" else 1), ("lock=no", "servers=2")),
    "batched": (5, 200, lambda way: on_all("", locked_batch if way else locked, ["worker1"], [3]),
                ("locked=batch:4:1x",)),
    "huge": (2, 20, lambda way: on_all("", huge, ["worker1"] * 8, [2 if way else 4] * 8),
             ("huge=bytes:2",)),
    "large": (2, 40, lambda way: on_all(way, large, ["worker1"] * 16, [*range(16)]),
              ("large=together",)),
    "tensors": (2, 20, lambda way: rpc.rpc_sync("worker1", parts, args=(4000, way)),
                ("parts=tensors",)),
    "rows": (2, 20, send_rows, ("nothing=tensors",)),
    "push": (5, 30, push, ("nothing=pickle-once",)),
    "fetch": (2, 30, fetch, ("to_here=fetch-once",)),
    "sampled": (2, 20, sampled, ("look_up=ahead",)),
    "paced": (2, 25, paced, ("driver=no-sleep",)),
    "callers": (2, 40, lambda way: on_all(way, look_up, ["worker1"] * 8, [*range(8)]),
                ("callers=2", "callers=4")),
}  # fmt: skip
"""Of each its ranks, its steps, what it does in a step, and the changes that are measured."""


def run_rank(rank: int, name: str, edit: str, port: str) -> None:
    """Run one process of a program; callers that are added do as the first does."""
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo"
    )
    torch.set_num_threads(1)
    size, steps, step, _ = PAIRS[name]
    what, _, value = edit.partition("=")
    calls = rank == 0 or (what == "callers" and rank >= size) or (rank > 1 and name == "batched")
    if edit == "look_up=faster:2":
        time.sleep = partial(_half, time.sleep)
    world_size = size_of(name, edit)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)  # type: ignore[no-untyped-call]
    if calls:
        way = edit if what == "driver" else value
        step(way)
        began_s = time.perf_counter()
        for _ in range(steps):
            step(way)
        if rank == 0:
            print(time.perf_counter() - began_s, flush=True)
    rpc.shutdown()


def _half(sleep: Callable[[float], None], seconds: float) -> None:
    sleep(seconds / 2)


def main(name: str, edit: str, port: str) -> None:
    """Run a program."""
    mp.start_processes(  # type: ignore[attr-defined, no-untyped-call]
        run_rank, args=(name, edit, port), nprocs=size_of(name, edit), start_method="fork"
    )


def size_of(name: str, edit: str) -> int:
    """The number of its processes."""
    what, _, value = edit.partition("=")
    return PAIRS[name][0] + (int(value) - 1 if what in ("callers", "servers") else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])

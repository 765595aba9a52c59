"""Callbacks of futures, as people write them: on worker threads of whoever made the call.

python callbacks.py PORT WHICH THREADS: WHICH is the name of a function below; the client has so
many threads. It prints what the callbacks see, and its number of calls last.
"""

import sys
import time
import traceback
import warnings
from typing import Any

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.futures import collect_all

warnings.simplefilter("always")
NAMES = ["client", "server"]


def nap(number: int, seconds: float = 0.01) -> int:
    time.sleep(seconds)
    return number


def post(future: Any) -> Any:
    time.sleep(0.005)
    return future.value() + 1


def shows(future: Any) -> Any:
    """What a program can see of who calls it."""
    warnings.warn("seen", stacklevel=2)
    frames = [f"{frame.filename}:{frame.name}" for frame in traceback.extract_stack()]
    print("below:", frames[:-1], flush=True)
    raise ValueError(f"broken {future.value()}")


def chain(future: Any) -> Any:
    return rpc.rpc_sync("server", nap, args=(future.value() + 100,))


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def chained(number: int) -> Any:
    return rpc.rpc_async("client", nap, args=(number,)).then(post)


def calling(rounds: int = 3) -> int:
    """Four blocking calls at once in callbacks: they need five threads of the client."""
    for _ in range(rounds):
        futures = [rpc.rpc_async("server", nap, args=(n, 0.1)).then(chain) for n in range(4)]
        print(sum(future.wait() for future in futures), flush=True)
    return 8 * rounds


def nested() -> int:
    futures = [rpc.rpc_async("server", nap, args=(n,)).then(post).then(post) for n in range(6)]
    print(sum(future.wait() for future in futures), flush=True)
    return 6


def showing() -> int:
    future = rpc.rpc_async("server", nap, args=(1,)).then(shows)
    try:
        future.wait()
    except RuntimeError as error:
        print(error, flush=True)
    done = rpc.rpc_async("server", nap, args=(2,))
    done.wait()
    try:
        done.then(shows).wait()  # at once, on this thread
    except RuntimeError as error:
        print(error, flush=True)
    try:
        done.then("no function")
    except TypeError:
        traceback.print_exc()
    return 2


def collecting() -> int:
    futures = [rpc.rpc_async("server", nap, args=(n,)) for n in range(3)]
    both = collect_all(futures).then(lambda done: sum(each.value() for each in done.value()))
    remote = rpc.remote("server", nap, args=(7, 0.1))
    made = remote._get_future().then(lambda future: "made")
    print(both.wait(), made.wait(), flush=True)
    return 4


def serving() -> int:
    futures = [rpc.rpc_async("server", chained, args=(n,)) for n in range(6)]
    print(sum(future.wait() for future in futures), flush=True)
    return 12


def late() -> int:
    future = rpc.rpc_async("server", nap, args=(1, 1.0), timeout=0.3)
    future.add_done_callback(lambda _: print("late", flush=True))
    try:
        future.wait()
    except RuntimeError:
        print("timed out", flush=True)
    return 1


def run(rank: int, port: str, which: str, threads: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=16 if rank else int(threads), rpc_timeout=40,
        init_method=f"tcp://127.0.0.1:{port}",
    )  # fmt: skip
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        calls = globals()[which]()
        print(f"calls: {calls}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.start_processes(run, args=(*sys.argv[1:4],), nprocs=2, start_method="fork")

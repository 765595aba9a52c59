"""Goes well, though processes of it end without `shutdown`, or a call of it raises.

python ends_well.py PORT: how stands in the environment, as HOW, which names a function.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess

import torch.distributed.rpc as rpc

CALLS = 60
PAUSE_S = 7.0
"""Longer than ranks do nothing that wait in vain."""
_spawn = multiprocessing.get_context("spawn")
_tried: list[int] = []


def nap(number: int) -> int:
    time.sleep(0.005)
    return number


def fails_once(number: int) -> int:
    _tried.append(number)
    if len(_tried) == 1:
        raise ConnectionError("shard 7 could not be read")
    return number


def begin(rank: int, port: int) -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    name = f"server{rank}" if rank else "client"
    rpc.init_rpc(name, rank=rank, world_size=3, rpc_backend_options=options)


def serve_for_ever(rank: int, port: int) -> None:
    if rank == 1:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    begin(rank, port)
    threading.Event().wait()


def serve(rank: int, port: int) -> None:
    begin(rank, port)
    rpc.shutdown()


def serve_for_a_second(rank: int, port: int) -> None:
    begin(rank, port)
    if rank == 1:
        time.sleep(1)
        rpc.shutdown(graceful=False)
    else:
        threading.Event().wait()


def call(to: str, function: Callable[[int], int] = nap, count: int = CALLS) -> None:
    futures = [rpc.rpc_async(to, function, args=(number,)) for number in range(count)]
    assert [future.wait() for future in futures] == [*range(count)]


def call_both(rank: int, port: int) -> None:
    begin(rank, port)
    call("server1")
    call("server2")
    rpc.shutdown()


def break_down(rank: int, port: int) -> None:
    begin(rank, port)
    if rank == 1:
        raise RuntimeError("out of luck")
    threading.Event().wait()


def started(target: Callable[..., None], port: int, *ranks: int) -> list[BaseProcess]:
    servers = [_spawn.Process(target=target, args=(n, port)) for n in ranks or (1, 2)]
    for server in servers:
        server.start()
    return [*servers]


def join(ranks: list[BaseProcess]) -> None:
    for rank in ranks:
        rank.join()


def terminated(port: int) -> None:
    servers = started(serve_for_ever, port)
    begin(0, port)
    call("server1")
    call("server2")
    rpc.shutdown(graceful=False)
    for server in servers:
        server.terminate()
        server.join()


def leaves_early(port: int) -> None:
    servers = started(serve_for_a_second, port)
    begin(0, port)
    call("server1")
    servers[0].join()
    time.sleep(PAUSE_S)
    call("server2")
    rpc.shutdown(graceful=False)
    servers[1].kill()


def fail_once(port: int, then: Callable[[], object], more: int) -> None:
    servers = started(serve, port)
    begin(0, port)
    call("server2", count=2 * CALLS - 1 - more)
    try:
        call("server1", fails_once, count=1)
    except RuntimeError:  # so a future tells of any
        then()
    call("server1", fails_once, count=more)
    rpc.shutdown()
    join(servers)


def retries(port: int) -> None:
    fail_once(port, lambda: time.sleep(PAUSE_S), 1)


def waits_after_error(port: int) -> None:
    fail_once(port, lambda: threading.Event().wait(PAUSE_S), 0)


def call_now_and_then(rank: int, port: int) -> None:
    begin(rank, port)
    for number in range(2 * CALLS):
        rpc.rpc_sync("server1", nap, args=(number,))
        time.sleep(PAUSE_S / (2 * CALLS))


def serves_in_shutdown(port: int) -> None:
    """Only the server calls `shutdown`, and at once; the other two are done some time."""
    client, server = started(call_now_and_then, port, 0), started(serve, port, 1)
    join([*started(begin, port, 2), *client])
    server[0].terminate()
    server[0].join()


def ends_shutdown(port: int) -> None:
    servers = [*started(serve_for_ever, port, 1), *started(begin, port, 2)]
    begin(0, port)
    call("server1", count=2 * CALLS)
    servers[1].join()
    with suppress(RuntimeError):
        rpc.shutdown(timeout=PAUSE_S)
    servers[0].kill()


def starts_again(port: int) -> None:
    ranks = started(break_down, port, 0, 1, 2)
    ranks[1].join()
    for rank in ranks:
        rank.kill()
    join([*started(call_both, port + 1, 0), *started(serve, port + 1)])


if __name__ == "__main__":
    globals()[os.environ["HOW"]](int(sys.argv[1]))
    print(f"calls: {2 * CALLS}", flush=True)

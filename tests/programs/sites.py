"""Calls of every kind, each from a line of its own, which ends with a comment of what it calls.

python sites.py PORT
"""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

NAMES = ["driver", "store"]
# PyTorch's own decorator is not typed.
async_execution: Callable[[Any], Any] = rpc.functions.async_execution


def double(number: int) -> int:  # defines double
    return 2 * number


def ask_back(number: int) -> int:  # defines ask_back
    return int(rpc.rpc_sync("driver", double, args=(number,)))  # issues within a served function


@async_execution  # defines ask_later
def ask_later(number: int) -> Any:
    return rpc.rpc_async("driver", double, args=(number,))  # issues within an async function


class Table:
    def __init__(self, rows: int) -> None:  # defines Table
        self.rows = rows

    def row(self, number: int) -> int:  # defines Table.row
        return self.rows + number

    @staticmethod  # defines Table.name
    def name() -> str:
        return "table"

    @async_execution  # defines Table.later
    def later(self, number: int) -> Any:
        return rpc.rpc_async("driver", double, args=(number,))  # issues within a method


def again(future: Any) -> Any:
    return rpc.rpc_sync("store", double, args=(future.value(),))  # issues in a callback


def called_by_a_helper(function: Any, *args: Any) -> Any:
    return rpc.rpc_sync("store", function, args=args)  # issues in a helper


def calls_of_functions() -> None:
    for number in range(3):
        rpc.rpc_sync("store", double, args=(number,))  # issues double one after another
    futures = [
        rpc.rpc_async("store", double, args=(number,))  # issues double together
        for number in range(2)
    ]
    for future in futures:
        future.wait()
    rpc.rpc_sync(  # issues double over several lines
        "store",
        double,
        args=(1,),
    )
    called_by_a_helper(double, 1)
    rpc.rpc_sync("store", partial(double, 2))  # issues a partial
    rpc.rpc_sync("store", max, args=(1, 2))  # issues max
    rpc.rpc_sync("store", ask_back, args=(1,))  # issues ask_back
    rpc.rpc_sync("store", ask_later, args=(1,))  # issues ask_later
    rpc.rpc_async("store", double, args=(3,)).then(again).wait()  # issues what a callback follows
    with ThreadPoolExecutor(1) as pool:
        # No line of the program is on the stack of this thread.
        pool.submit(rpc.rpc_sync, "store", double, (4,)).result()


def calls_of_objects() -> None:
    made = rpc.remote("store", double, args=(5,))  # issues remote
    made.to_here()  # issues to_here
    for first in ("rpc_async", "rpc_sync"):
        # The first call of a proxy asks for the type, and is issued once that is known.
        table = rpc.remote("store", Table, args=(6,))  # issues Table
        if first == "rpc_async":
            table.rpc_async().row(1).wait()  # issues row by a new proxy
        table.rpc_sync().row(2)  # issues row
        table.rpc_async().row(3).wait()  # issues row by a known proxy
        table.remote().row(4).to_here()  # issues row and fetches
        table.rpc_sync().name()  # issues name
        table.rpc_async().later(5).wait()  # issues later


def run(rank: int, port: str) -> None:
    rpc.init_rpc(
        NAMES[rank], rank=rank, world_size=2,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            init_method=f"tcp://127.0.0.1:{port}"
        ),
    )  # fmt: skip
    if rank == 0:
        calls_of_functions()
        calls_of_objects()
    rpc.shutdown()


if __name__ == "__main__":
    mp.start_processes(run, args=(sys.argv[1],), nprocs=2, start_method="fork")

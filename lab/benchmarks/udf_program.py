"""The recipe's step as a program: two processes, four calls at once, as often as it is told.

The driver prints its median step time while it is recorded, over that while it is not.
"""

import os
import statistics
import sys
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

from tuner.trace.record.program_recorder import JournaledClient
from tuner.trace.record.wire import Ends
from workloads.udf import num_workers_udf_with_ops

WARM_UP = 20
TURN_STEPS = 10


def run_rank(rank: int, turns: int, port: str) -> None:
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo"
    )
    torch.set_num_threads(1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)  # type: ignore[no-untyped-call]
    if rank == 0:
        for _ in range(WARM_UP):
            step()
        print(in_turns(turns), flush=True)
    rpc.shutdown()


def in_turns(turns: int) -> float:
    """Recorded over not recorded; recorded, not, not, recorded, so that a drift cancels out."""
    client = Ends.client
    assert isinstance(client, JournaledClient)
    step_s: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(turns):
        is_recorded = turn % 4 in (0, 3)
        for _ in range(TURN_STEPS):
            started_s = time.perf_counter()
            step()
            step_s[is_recorded].append(time.perf_counter() - started_s)
        if turn % 4 == 0:
            client.pause()
        elif turn % 4 == 2:
            client.resume()
    return statistics.median(step_s[True]) / statistics.median(step_s[False])


def step() -> None:
    futures = [
        rpc.rpc_async("worker1", num_workers_udf_with_ops, args=(100, 10, 0)) for _ in range(4)
    ]
    for future in futures:
        future.wait()


if __name__ == "__main__":
    mp.spawn(run_rank, args=(int(sys.argv[1]), sys.argv[2]), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]

"""Sixteen calls that keep 60 MB each for 0.15 s: more threads are faster, and hold more at once.

`python memory_limit.py PORT`
"""

import os
import sys
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

CALLS = 16


def load(place: int) -> float:
    kept = torch.ones(15_000_000)
    time.sleep(0.15)
    return float(kept[place])


def run(rank: int, port: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=2)
    name = ["client", "server"][rank]
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        calls = [rpc.rpc_async("server", load, args=(each,)) for each in range(CALLS)]
        print("sum", sum(call.wait() for call in calls), flush=True)
        print("calls:", CALLS, flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.start_processes(run, args=(sys.argv[1],), start_method="fork", nprocs=2)

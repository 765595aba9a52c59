"""A pipeline that hangs as it is: four micro-batches wait in `to_here` on all threads of a stage.

Their answers need one of these threads. With five or more it runs.

`python hangs_as_it_is.py PORT`
"""

import os
import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

STEPS, BATCHES = 3, 4


def second(number: int) -> int:
    time.sleep(0.02)
    return number


def forward(number: int) -> int:
    there = rpc.remote("stage2", second, args=(number,))
    return int(there.to_here()) + 1


def run(rank: int, port: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4)
    name = ["master", "stage1", "stage2"][rank]
    rpc.init_rpc(name, rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        for _ in range(STEPS):
            calls = [rpc.rpc_async("stage1", forward, args=(each,)) for each in range(BATCHES)]
            print("sum", sum(call.wait() for call in calls), flush=True)
        print("calls:", 3 * STEPS * BATCHES, flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.start_processes(run, args=(sys.argv[1],), start_method="fork", nprocs=3)

"""A learner polls a replay server, which an actor pushes 100 items to, one every 10 ms.

It takes a second with any configuration. How often the learner asks differs from run to run, and is
no measure of what the program does.
"""

import os
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

ITEMS: list[int] = []


def push(item: int) -> None:
    ITEMS.append(item)


def size() -> int:
    return len(ITEMS)


def learn() -> None:
    calls = 1
    while rpc.rpc_sync("replay", size) < 100:
        calls += 1
    print("calls:", 100 + calls, flush=True)


def act() -> None:
    for item in range(100):
        time.sleep(0.01)
        rpc.rpc_async("replay", push, args=(item,))


def run(rank: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="41022")
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=16)
    name = ["learner", "replay", "actor"][rank]
    rpc.init_rpc(name, rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        learn()
    elif rank == 2:
        act()
    rpc.shutdown()


if __name__ == "__main__":
    mp.start_processes(run, start_method="fork", nprocs=3)

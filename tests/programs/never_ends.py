"""Serves for ever: nobody calls shutdown."""

import os
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def tick(number: int) -> int:
    return number + 1


def run(rank: int) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"
    rpc.init_rpc(f"node{rank}", rank=rank, world_size=2)
    number = 0
    while rank == 0:
        number = rpc.rpc_sync("node1", tick, args=(number,))
        if number % 100 == 0:
            print(f"calls: {number}", flush=True)
        time.sleep(0.001)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    mp.spawn(run, nprocs=2)

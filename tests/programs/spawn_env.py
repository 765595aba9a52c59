"""Processes by mp.spawn, rendezvous by the environment, default options."""

import os
import sys
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def slow_add(tensor: torch.Tensor, seconds: float) -> torch.Tensor:
    time.sleep(seconds)
    return tensor + 1


def run(rank: int, world_size: int, steps: int) -> None:
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    rpc.init_rpc("agent" if rank == 0 else f"observer{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        calls = 0
        for _ in range(steps):
            futures = [
                rpc.rpc_async(f"observer{to}", slow_add, args=(torch.ones(4), 0.01))
                for to in range(1, world_size)
                for _ in range(8)
            ]
            calls += len(futures)
            assert all(bool((future.wait() == 2).all()) for future in futures)
        print(f"calls: {calls}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    world_size, steps = int(sys.argv[1]), int(sys.argv[2])
    mp.spawn(run, args=(world_size, steps), nprocs=world_size, join=True)

"""A learner that computes in Python on its main thread, while an actor asks it for its weights."""

import os
import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

_learned: list[bool] = []


def weights() -> bool:
    """Whether the learner has ended: a served function that does next to nothing."""
    return bool(_learned)


def learn(seconds: float) -> None:
    until = time.perf_counter() + seconds
    total = 0
    while time.perf_counter() < until:
        for i in range(10_000):
            total += i * i
    _learned.append(True)


def act() -> None:
    calls, began = 0, time.perf_counter()
    is_over = False
    while not is_over:
        is_over = rpc.rpc_sync("learner", weights)
        calls += 1
    each_ms = (time.perf_counter() - began) / calls * 1e3
    print(f"calls: {calls}, {each_ms:.3f} ms each", flush=True)


def run(rank: int, seconds: float, port: str) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", port
    rpc.init_rpc("learner" if rank == 0 else "actor", rank=rank, world_size=2)
    if rank == 0:
        learn(seconds)
    else:
        act()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(float(sys.argv[1]), sys.argv[2]), nprocs=2)

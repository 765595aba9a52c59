"""A learner that computes in Python on a thread of its own, while its main thread waits, and an
actor asks it for its weights."""

import os
import sys
import threading
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

_learned = threading.Event()


def weights() -> bool:
    """Whether the learner has ended: a served function that does next to nothing."""
    return _learned.is_set()


def learn(seconds: float) -> None:
    until = time.perf_counter() + seconds
    total = 0
    while time.perf_counter() < until:
        for i in range(10_000):
            total += i * i
    _learned.set()


def act() -> None:
    calls = 1
    while not rpc.rpc_sync("learner", weights):
        calls += 1
    print(f"calls: {calls}", flush=True)


def run(rank: int, seconds: float, port: str) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", port
    rpc.init_rpc("learner" if rank == 0 else "actor", rank=rank, world_size=2)
    if rank == 0:
        thread = threading.Thread(target=learn, args=(seconds,))
        thread.start()
        thread.join()  # so that none is left when the recording ends
    else:
        act()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(float(sys.argv[1]), sys.argv[2]), nprocs=2)

"""A learner that computes in Python on its main thread, while an actor asks it for its weights.

`python learner_computes.py SECONDS PORT [beside]`: or on a thread of its own.
"""

import os
import statistics
import sys
import threading
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
    took_s = []
    is_over = False
    while not is_over:
        began = time.perf_counter()
        is_over = rpc.rpc_sync("learner", weights)
        took_s.append(time.perf_counter() - began)
    median_ms = statistics.median(took_s) * 1e3
    print(f"calls: {len(took_s)}, of {median_ms:.2f} ms in the median", flush=True)


def run(rank: int, seconds: float, port: str, *where: str) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", port
    rpc.init_rpc("learner" if rank == 0 else "actor", rank=rank, world_size=2)
    if rank == 0 and where:
        thread = threading.Thread(target=learn, args=(seconds,))
        thread.start()
        thread.join()  # so that none is left when the recording ends
    elif rank == 0:
        learn(seconds)
    else:
        act()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(float(sys.argv[1]), *sys.argv[2:]), nprocs=2)

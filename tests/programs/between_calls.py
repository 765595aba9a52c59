"""A driver that computes between its calls, or sleeps."""

import os
import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def answer() -> int:
    return 1


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def run(rank: int, between: str, seconds: float, port: str) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", port
    rpc.init_rpc("driver" if rank == 0 else "server", rank=rank, world_size=2)
    if rank == 0:
        for _ in range(40):
            assert rpc.rpc_sync("server", answer) == 1
            (compute if between == "compute" else time.sleep)(seconds)
        print("calls: 40", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1], float(sys.argv[2]), sys.argv[3]), nprocs=2)

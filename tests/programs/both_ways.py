"""Two processes that call each other until they end; each tells when it made its calls.

The left one computes meanwhile, so that its other threads get the GIL late.
"""

import os
import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

NAMES = ["left", "right"]


def nap() -> None:
    time.sleep(0.001)


def run(rank: int, seconds: float, port: str) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", port
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=2)
    made_ns, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        futures = []
        for _ in range(3):
            made_ns.append(time.time_ns())
            futures.append(rpc.rpc_async(NAMES[1 - rank], nap))
        while rank == 0 and not all(future.done() for future in futures):
            pass
        for future in futures:
            future.wait()
        if rank == 1:
            time.sleep(0.05)
    print(f"{NAMES[rank]} made: {made_ns}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(float(sys.argv[1]), sys.argv[2]), nprocs=2)

"""Makes the same four calls at once again and again for some seconds; with a second argument that
is no 1, the calls of the second half take so many times as long."""

import os
import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

CALL_S = 0.005


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def run(rank: int, seconds: float, factor: float) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"
    rpc.init_rpc(f"node{rank}", rank=rank, world_size=2)
    steps = round(seconds / CALL_S / (1 + factor))
    for call_s in [CALL_S] * steps + [CALL_S * factor] * steps if rank == 0 else []:
        for future in [rpc.rpc_async("node1", sleep, args=(call_s,)) for _ in range(4)]:
            future.wait()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(float(sys.argv[1]), float("".join(sys.argv[2:]) or 1)), nprocs=2)

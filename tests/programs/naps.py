"""Eight calls at a time to a function that waits for 10 ms."""

import os
import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def nap() -> None:
    time.sleep(0.01)


def run(rank: int, rounds: int) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"
    rpc.init_rpc("client" if rank == 0 else "server", rank=rank, world_size=2)
    if rank == 0:
        for _ in range(rounds):
            for future in [rpc.rpc_async("server", nap) for _ in range(8)]:
                future.wait()
        print(f"calls: {8 * rounds}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(int(sys.argv[1]),), nprocs=2)

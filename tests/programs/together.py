"""A served function that waits until the calls of all trainers are there."""

import sys
import threading
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

TRAINERS, STEPS = 3, 10
turn, waiting = threading.Condition(), [0, 0]


def update() -> int:
    with turn:
        number = waiting[1]
        waiting[0] += 1
        if waiting[0] == TRAINERS:
            waiting[:] = [0, number + 1]
            turn.notify_all()
        while waiting[1] == number:
            turn.wait()
        return number


def run(rank: int, port: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(
        f"trainer{rank}" if rank else "ps",
        rank=rank,
        world_size=TRAINERS + 1,
        rpc_backend_options=options,
    )
    if rank:
        for step in range(STEPS):
            time.sleep(0.003 * rank)
            assert rpc.rpc_sync("ps", update) == step
    rpc.shutdown()
    if rank == 0:
        print(f"calls: {TRAINERS * STEPS}", flush=True)


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1],), nprocs=TRAINERS + 1)

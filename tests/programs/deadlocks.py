"""Hangs as it is: micro-batches wait on all threads of a stage, whose answers need a thread. With a
way to wait, `to_here`, `rpc_sync` or `wait`, and the threads of the stage."""

import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

NAMES = ["master", "stage1", "stage2"]
BATCHES = 4


def second(batch: int) -> int:
    time.sleep(0.02)
    return batch


def forward(batch: int, way: str) -> int:
    time.sleep(0.2)  # so that all batches are there before one is done
    if way == "to_here":
        return 1 + int(rpc.remote("stage2", second, args=(batch,)).to_here())
    if way == "wait":
        return 1 + int(rpc.rpc_async("stage2", second, args=(batch,)).wait())
    return 1 + int(rpc.rpc_sync("stage2", second, args=(batch,)))


def run(rank: int, port: str, way: str, threads: int) -> None:
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=threads, init_method=f"tcp://127.0.0.1:{port}"
    )
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        for _ in range(10):
            made = [rpc.rpc_async("stage1", forward, args=(n, way)) for n in range(BATCHES)]
            assert [future.wait() for future in made] == [1 + n for n in range(BATCHES)]
        print(f"calls: {10 * BATCHES * (3 if way == 'to_here' else 2)}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1], sys.argv[2], int(sys.argv[3])), nprocs=3)

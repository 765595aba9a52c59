"""A process group beside RPC, each with a rendezvous of its own; and it starts itself by execv."""

import os
import sys

if "STARTED" not in os.environ:
    os.environ["STARTED"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv])

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def total(numbers: list[int]) -> int:
    return sum(numbers)


def run(rank: int, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=16, init_method=f"tcp://127.0.0.1:{port + 1}", _transports=["uv"]
    )
    rpc.init_rpc(f"collector{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    ones = torch.ones(1)
    dist.all_reduce(ones)
    if rank == 0:
        assert rpc.rpc_sync("collector1", total, args=([1, 2, 3],)) == 6 == 3 * int(ones)
        print("calls: 1", flush=True)
    rpc.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(int(sys.argv[1]),), nprocs=2)

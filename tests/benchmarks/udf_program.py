"""The recipe's step as a program: two processes, four calls at once, as often as it is told."""

import os
import sys

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

from workloads.udf import num_workers_udf_with_ops

WARM_UP = 20


def run_rank(rank: int, steps: int, port: str) -> None:
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo"
    )
    torch.set_num_threads(1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)  # type: ignore[no-untyped-call]
    if rank == 0:
        for _ in range(WARM_UP + steps):
            futures = [
                rpc.rpc_async("worker1", num_workers_udf_with_ops, args=(100, 10, 0))
                for _ in range(4)
            ]
            for future in futures:
                future.wait()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run_rank, args=(int(sys.argv[1]), sys.argv[2]), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]

"""Each rank prints where its threads may run once RPC is up, and its switch interval.

python bound.py PORT HOW: `plain`; `overrides`: each sets both anew; `binds`: each has bound itself,
as the lines to paste do.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

from tuner.cpus import bind_rank

EVERYWHERE = os.sched_getaffinity(0)


def threads() -> list[int]:
    return [int(each.name) for each in Path("/proc/self/task").iterdir()]


def run(rank: int, port: str, how: str) -> None:
    torch.set_num_threads(2)
    torch.ones(300, 300).mm(torch.ones(300, 300))  # its pool of threads is there before RPC
    if how == "binds":
        bind_rank(rank, 2)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if how == "overrides":
        for thread in threads():
            os.sched_setaffinity(thread, EVERYWHERE)
        sys.setswitchinterval(0.02)
    cpus = {tuple(os.sched_getaffinity(thread)) for thread in threads()}
    print(f"worker{rank}: {sorted(cpus)} {round(sys.getswitchinterval(), 6)}", flush=True)
    if rank == 0:
        rpc.rpc_sync("worker1", torch.add, args=(torch.ones(1), 1))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=tuple(sys.argv[1:]), nprocs=2)

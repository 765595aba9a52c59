"""Each rank prints where its threads may run once RPC is up, and its switch interval.

`starts`: rank 0 starts rank 1 itself, after it is ready. `overrides`: each sets both anew.
`binds`: each has bound itself, as the lines to paste do.
"""

import os
import subprocess
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
    dynamic = how == "starts"
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(
        f"worker{rank}",
        rank=rank,
        world_size=None if dynamic else 2,
        rpc_backend_options=options,
    )
    if how == "overrides":
        for thread in threads():
            os.sched_setaffinity(thread, EVERYWHERE)
        sys.setswitchinterval(0.02)
    cpus = {tuple(os.sched_getaffinity(thread)) for thread in threads()}
    print(f"worker{rank}: {sorted(cpus)} {round(sys.getswitchinterval(), 6)}", flush=True)
    started = None
    if dynamic and rank == 0:
        started = subprocess.Popen([sys.executable, __file__, port, how, "1"])
    if dynamic and rank == 1:
        rpc.rpc_sync("worker0", torch.add, args=(torch.ones(1), 1))
    if not dynamic and rank == 0:
        rpc.rpc_sync("worker1", torch.add, args=(torch.ones(1), 1))
    if started is not None:
        started.wait()
    rpc.shutdown()


if __name__ == "__main__":
    port, how, *number = sys.argv[1:]
    if number:
        run(int(number[0]), port, how)
    elif how == "starts":
        run(0, port, how)
    else:
        mp.spawn(run, args=(port, how), nprocs=2)

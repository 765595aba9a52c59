"""Two processes, each on CPUs of its own: a tensor there and another one back, by its size.

The driver prints its median time of an echo in ms for each of the sizes that it is given in KB.
"""

import os
import statistics
import sys
import time

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

from tuner.cpus import bind_rank

WARM_UP = 5
LASTS_S = 0.3


def echo(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of its own, as large."""
    return tensor + 1


def run_rank(rank: int, port: str, sizes_kb: list[int]) -> None:
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo"
    )
    torch.set_num_threads(1)
    bind_rank(rank, 2)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)  # type: ignore[no-untyped-call]
    if rank == 0:
        print(*[median_ms(size) for size in sizes_kb], flush=True)
    rpc.shutdown()


def median_ms(size_kb: int) -> float:
    """The median time of an echo."""
    tensor = torch.ones(size_kb * 256)
    took_s: list[float] = []
    while len(took_s) < WARM_UP or sum(took_s[WARM_UP:]) < LASTS_S:
        started_s = time.perf_counter()
        rpc.rpc_sync("worker1", echo, args=(tensor,))
        took_s.append(time.perf_counter() - started_s)
    return statistics.median(took_s[WARM_UP:]) * 1e3


if __name__ == "__main__":
    mp.spawn(run_rank, args=(sys.argv[1], [*map(int, sys.argv[2:])]), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]

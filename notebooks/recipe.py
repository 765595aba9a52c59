"""The program of PyTorch's RPC profiling recipe: two processes, four calls in flight, profiled.

`python recipe.py --threads 8 --repeat 10 --trace eight.json`
"""

import argparse
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

import tuner
from workloads.udf import num_workers_udf_with_ops

NAMES = ("worker0", "worker1")
CALLS = 4
SIZE = 600  # operators so large that they run without the GIL for most of the time
ROUNDS = 10


def call_all() -> None:
    """Four calls of the CPU-heavy function, all in flight."""
    futures = [
        rpc.rpc_async("worker1", num_workers_udf_with_ops, args=(SIZE, ROUNDS, seed))
        for seed in range(CALLS)
    ]
    for future in futures:
        future.wait()


def run(rank: int, threads: int, repeat: int, trace: Path, store: str) -> None:
    """The life of one process."""
    torch.set_num_threads(1)
    os.environ.update(TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=threads, init_method=f"file://{store}"
    )
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=len(NAMES), rpc_backend_options=options)
    if rank == 0:
        call_all()  # connections are made in the first calls
        with tuner.profile() as prof:
            for _ in range(repeat):
                call_all()
        prof.export_perfetto(trace)
    rpc.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--trace", type=Path, default=Path("trace.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (given.threads, given.repeat, given.trace, f"{folder}/store")
        mp.spawn(run, arguments, nprocs=len(NAMES))

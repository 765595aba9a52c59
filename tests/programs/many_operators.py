"""Both ranks run so many small operators in each of ten steps that no recording keeps them all."""

import sys
from time import process_time, time_ns

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def work(count: int) -> float:
    values = torch.ones(4)
    for _ in range(count):
        values = values + 1
    return float(values[0])


def run(rank: int, port: str, count: int) -> None:
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(["driver", "server"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        for _ in range(10):
            future = rpc.rpc_async("server", work, args=(count,))
            assert work(count) == future.wait() == 1 + count
        print(f"calls: 10\nended: {time_ns()} after {process_time()} s", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1], int(sys.argv[2])), nprocs=2)

"""Operators compute as it is imported; it may set the number of their threads once RPC runs."""

import sys

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

torch.ones(300_000).exp()
EARLY = torch.get_num_threads()


def run(rank: int, port: str, own: int) -> None:
    address = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=address)
    if own:
        torch.set_num_threads(own)
    if rank == 0:
        print(f"early threads: {EARLY}", flush=True)
        rpc.rpc_sync("worker1", max, args=(1, 2))
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1], int(sys.argv[2])), nprocs=2)

"""RPC that is started again and again in the same processes, with other work in between."""

import itertools
import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp


def nap() -> None:
    time.sleep(0.02)


def run(rank: int, port: int, rounds: int) -> None:
    for number in range(rounds) if rounds else itertools.count():
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
        rpc.init_rpc(f"node{rank}", rank=rank, world_size=2, rpc_backend_options=options)
        if rank == 0:
            for _ in range(10):
                rpc.rpc_sync("node1", nap)
        rpc.shutdown()
        time.sleep(0.3)
        if rank == 0:
            print(f"calls: {10 * (number + 1)}", flush=True)


if __name__ == "__main__":
    mp.spawn(run, args=(int(sys.argv[1]), int(sys.argv[2])), nprocs=2)

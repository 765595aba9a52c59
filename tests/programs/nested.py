"""Calls inside of calls: each relay asks the store and waits, on the threads that it was given."""

import sys
import time

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

NAMES = ["driver", "relay1", "store"]


def twice(number: int) -> int:
    return 2 * number


def relay(number: int) -> int:
    time.sleep(0.05)
    return 1 + int(rpc.rpc_sync("store", twice, args=(number,)))


def run(rank: int, port: str, threads: int, calls: int) -> None:
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=threads, rpc_timeout=20, init_method=f"tcp://127.0.0.1:{port}"
    )
    rpc.init_rpc(NAMES[rank], rank=rank, world_size=3, rpc_backend_options=options)
    if rank == 0:
        print("calling", flush=True)
        futures = [rpc.rpc_async("relay1", relay, args=(number,)) for number in range(calls)]
        assert [future.wait() for future in futures] == [2 * number + 1 for number in range(calls)]
        print(f"calls: {2 * calls}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), nprocs=3)

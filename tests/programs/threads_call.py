"""Four threads of the driver make 200 calls each, at the same time. python threads_call.py PORT"""

import sys
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

THREADS, CALLS = 4, 200


def add(one: int, other: int) -> int:
    return one + other


def call() -> None:
    futures = [rpc.rpc_async("server", add, args=(number, 1)) for number in range(CALLS)]
    assert [future.wait() for future in futures] == [*range(1, CALLS + 1)]


def run(rank: int, port: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(["driver", "server"][rank], rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        threads = [threading.Thread(target=call) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"a GIL: {getattr(sys, '_is_gil_enabled', lambda: True)()}")
        print(f"calls: {THREADS * CALLS}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1],), nprocs=2)

"""Names imported one by one, options of its own that are changed after they were made."""

import sys

import torch.multiprocessing as mp
from torch.distributed.rpc import TensorPipeRpcBackendOptions, init_rpc, rpc_sync, shutdown


def double(number: int) -> int:
    return 2 * number


def run(rank: int, port: str) -> None:
    options = TensorPipeRpcBackendOptions(num_worker_threads=16, _transports=["uv"])
    options.init_method = f"tcp://127.0.0.1:{port}"
    options.num_worker_threads = 7
    options.rpc_timeout = 20
    init_rpc(f"trainer{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 1:
        assert [rpc_sync("trainer0", double, args=(n,)) for n in range(5)] == [0, 2, 4, 6, 8]
        print("calls: 5", flush=True)
    shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1],), nprocs=2)

"""Every fifth run of it fails, once its calls are made: `python one_of_five_fails.py PORT FOLDER`.

The folder gets a file for each run.
"""

import sys
from pathlib import Path

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

CALLS = 50


def double(number: int) -> int:
    return 2 * number


def run(rank: int, port: str, fails: bool) -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        assert sum(rpc.rpc_sync("worker1", double, args=(n,)) for n in range(CALLS)) > 0
        if fails:
            raise ConnectionResetError("shard 7 could not be read")
        print(f"calls: {CALLS}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    number = len([*folder.iterdir()])
    (folder / str(number)).touch()
    mp.spawn(run, args=(sys.argv[1], number % 5 == 4), nprocs=2)

"""One rank of a world of two, whose clocks differ: rank 0 traces both, into a file.

Rank 1 serves until it is killed: with a clock that is changed, a shutdown may wait for ever.
"""

import os
import sys
import time

import torch
import torch.distributed.rpc as rpc

import tuner


def work(tensor: torch.Tensor) -> torch.Tensor:
    # No sleep: that of Python does not work where libfaketime changes a clock.
    until = time.perf_counter() + 0.005
    while time.perf_counter() < until:
        pass
    return tensor + 1


def main(rank: int, store: str, trace: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}")
    rpc.init_rpc(  # type: ignore[no-untyped-call]
        f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options
    )
    if rank == 1:
        sys.stdin.read()
        return
    with tuner.profile(operators=False) as recorded:
        for _ in range(200):
            rpc.rpc_sync("worker1", work, args=(torch.ones(2),))
    recorded.export_perfetto(trace)
    print("ahead", float(rpc.rpc_sync("worker1", time.time)) - time.time(), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])

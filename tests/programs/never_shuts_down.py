"""Works, and ends without `shutdown`: both processes call os._exit when they are done.

python never_shuts_down.py RANK: the server is started beside the driver, which polls every 0.1 s
whether the result is there, and sleeps 1 s at the end: sleeping is nearly all of its time.
"""

import os
import sys
import time

import torch.distributed.rpc as rpc

READY: list[int] = []


def start(n: int) -> None:
    time.sleep(0.3)
    READY.append(n)


def result() -> int | None:
    return READY[-1] if READY else None


rank = int(sys.argv[1])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="41205")
rpc.init_rpc(["driver", "server"][rank], rank=rank, world_size=2)
if rank == 0:
    rpc.rpc_async("server", start, args=(7,))
    while rpc.rpc_sync("server", result) is None:
        time.sleep(0.1)
    time.sleep(1)
    print("result", rpc.rpc_sync("server", result), flush=True)
    rpc.rpc_async("server", os._exit, args=(0,))
    time.sleep(0.1)
else:
    time.sleep(30)
os._exit(0)

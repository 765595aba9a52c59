"""A driver makes ten calls, and its ranks end as $HOW says: not all of them by `shutdown`.

python leaves.py PORT
"""

import os
import sys
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

_done = threading.Event()


def work(number: int) -> int:
    return number + 1


def leave() -> None:
    _done.set()


def begin(rank: int, port: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(["driver", "server"][rank], rank=rank, world_size=2, rpc_backend_options=options)


def serve(port: str, how: str) -> None:
    begin(1, port)
    _done.wait()
    if how == "servers_alone":
        rpc.shutdown(graceful=False)
    os._exit(0)


def main(port: str, how: str) -> None:
    server = mp.get_context("spawn").Process(target=serve, args=(port, how))
    server.start()
    begin(0, port)
    total = sum(rpc.rpc_sync("server", work, args=(number,)) for number in range(10))
    rpc.rpc_async("server", leave)
    server.join()
    print(f"total {total}\ncalls: 11", flush=True)
    if how == "driver_alone":
        rpc.shutdown(graceful=False)
    elif how == "os_exit":
        os._exit(0)
    elif how == "sys_exit":
        sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1], os.environ["HOW"])

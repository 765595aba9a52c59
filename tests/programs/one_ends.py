"""A server and two trainers, one of which may end before its work is done.

python one_ends.py PORT START: START is `spawn`, of a parent that joins its children and exits with
0; or `patient`, which exits so when it is terminated, too; or the number of the rank to be; or
`torchrun`, which says that number.
Which rank ends, and how, stands in ONE_END, as `2 raises`; without it, all goes well.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from typing import Any

import torch.distributed.rpc as rpc

STEPS = 20


def update(step: int) -> int:
    return step + 1


def lacks(step: Any) -> Any:
    return step.nothing


def end(cause: str) -> None:
    if cause == "raises":
        raise RuntimeError("a variable was modified by an inplace operation\nHint: none")
    if cause == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if cause == "leaves":
        return
    if cause == "thread":
        threading.Thread(target=lacks, args=(1,)).start()
    if cause == "served":  # nobody waits for the answer, and something else never comes
        rpc.rpc_async("server0", lacks, args=(1,))
    threading.Event().wait()


def run(rank: int, port: str) -> None:
    address = f"tcp://127.0.0.1:{port}" if port else "env://"
    options = rpc.TensorPipeRpcBackendOptions(init_method=address)
    name = f"trainer{rank}" if rank else "server0"
    rpc.init_rpc(name, rank=rank, world_size=3, rpc_backend_options=options)
    which, _, cause = os.environ.get("ONE_END", "").partition(" ")
    for step in range(STEPS):
        if rank:
            rpc.rpc_sync("server0", update, args=(step,))
        time.sleep(0.01)
        if which == str(rank) and step == STEPS // 2:
            end(cause)
            return
    rpc.shutdown()


def main(port: str, start: str) -> None:
    if start.isdecimal():
        run(int(start), port)
    elif start == "torchrun":
        run(int(os.environ["RANK"]), "")
    else:
        if start == "patient":  # it makes nothing of SIGTERM but a good end
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        context = multiprocessing.get_context("spawn")
        ranks = [context.Process(target=run, args=(rank, port)) for rank in range(3)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    print(f"calls: {2 * STEPS}")


if __name__ == "__main__":
    main(*sys.argv[1:])

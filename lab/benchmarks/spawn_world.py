"""A world as the recipe launches it: `torch.multiprocessing.spawn`. Prints its cost in seconds.

The cost is everything but the measured time, as for the local launcher; warm-up, steps and the
loopback addresses are the same on both sides.
"""

import os
import socket
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

from lab.benchmarks.calls import call_all
from tuner.world.rank.timing import StepTimer

STEPS = 50


def run_rank(rank: int, world_size: int, port: int, answer: str) -> None:
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TP_SOCKET_IFNAME="lo",
        GLOO_SOCKET_IFNAME="lo",
    )
    torch.set_num_threads(1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)  # type: ignore[no-untyped-call]
    if rank == 0:
        servers = [f"worker{n}" for n in range(1, world_size)]
        timer = StepTimer(
            lambda: call_all(servers),
            min_time_s=0.3,
            cpu_clocks=list,
            on_step=lambda done: None,
        )
        timer.warm_up()
        Path(answer).write_text(str(timer.time(STEPS).wall_s))
    rpc.shutdown()


def main(world_size: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "timed"
        started_s = time.perf_counter()
        mp.spawn(run_rank, args=(world_size, port, str(answer)), nprocs=world_size)  # type: ignore[attr-defined, no-untyped-call]
        print(time.perf_counter() - started_s - float(answer.read_text()))


if __name__ == "__main__":
    main(int(sys.argv[1]))

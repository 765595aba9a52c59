"""Programs that use RPC as the recipe does: `programs.py KIND PORT NUMBER...`; rank 0 prints.

udf    the recipe's step, four calls at once, in so many turns: recorded over not recorded
spawn  what a world of so many ranks costs beyond its measured time, in s
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

ROOT = Path(__file__).parents[2]
STEPS = 50
"""Of a world of `spawn`."""


def command(kind: str, *numbers: int) -> list[str]:
    """A program of these, at a port that is free."""
    from testing.programs import PYTHON, free_port

    return [*PYTHON, "-m", "lab.benchmarks.programs", kind, free_port(), *map(str, numbers)]


def printed(kind: str, *numbers: int) -> list[float]:
    """The numbers that such a program prints."""
    asked = command(kind, *numbers)
    done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return [float(word) for word in done.stdout.split()]


def call_all(servers: Sequence[str]) -> None:
    """Make one small call to each server, all in parallel."""
    futures = [rpc.rpc_async(name, torch.add, args=(torch.ones(10), 1)) for name in servers]
    for future in futures:
        future.wait()


def run_rank(rank: int, world_size: int, port: str, drive: Callable[[], None]) -> None:
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo"
    )
    torch.set_num_threads(1)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)  # type: ignore[no-untyped-call]
    if rank == 0:
        drive()
    rpc.shutdown()


def world(world_size: int, port: str, drive: Callable[[], None]) -> None:
    arguments = (world_size, port, drive)
    mp.spawn(run_rank, args=arguments, nprocs=world_size)  # type: ignore[attr-defined, no-untyped-call]


def udf(turns: int) -> None:
    """Recorded, not, not, recorded, so that a drift cancels out."""
    from tuner.trace.record.program_recorder import JournaledClient
    from tuner.trace.record.wire import Ends

    for _ in range(20):
        udf_step()
    client = Ends.client
    assert isinstance(client, JournaledClient)
    step_s: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(turns):
        step_s[turn % 4 in (0, 3)] += [udf_step() for _ in range(10)]
        if turn % 4 == 0:
            client.pause()
        elif turn % 4 == 2:
            client.resume()
    print(statistics.median(step_s[True]) / statistics.median(step_s[False]), flush=True)


def udf_step() -> float:
    from workloads.udf import num_workers_udf_with_ops

    started_s = time.perf_counter()
    call = {"to": "worker1", "func": num_workers_udf_with_ops, "args": (100, 10, 0)}
    for future in [rpc.rpc_async(**call) for _ in range(4)]:
        future.wait()
    return time.perf_counter() - started_s


def timed(ranks: int, answer: Path) -> None:
    """Warm-up, steps and the loopback addresses are those of the local launcher."""
    from tuner.world.rank.timing import StepTimer

    servers = [f"worker{n}" for n in range(1, ranks)]
    timer = StepTimer(
        lambda: call_all(servers), min_time_s=0.3, cpu_clocks=list, on_step=lambda done: None
    )
    timer.warm_up()
    answer.write_text(str(timer.time(STEPS).wall_s))


def main(kind: str, port: str, numbers: Sequence[int]) -> None:
    if kind == "udf":
        world(2, port, partial(udf, *numbers))
    else:
        (ranks,) = numbers
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder) / "timed"
            started_s = time.perf_counter()
            world(ranks, port, partial(timed, ranks, answer))
            print(time.perf_counter() - started_s - float(answer.read_text()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [*map(int, sys.argv[3:])])

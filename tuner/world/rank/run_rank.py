"""Runs in every process of a world: initialises RPC, runs the workload, reports, shuts down."""

import faulthandler
import io
import os
import random
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import torch
import torch.distributed.rpc as rpc
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import register_rendezvous_handler

from tuner.errors import TraceError
from tuner.plan.knobs import agent_options
from tuner.process_knobs import ProcessKnobs
from tuner.text import shortened
from tuner.torch_private.agent import tensorpipe_options
from tuner.torch_private.answers import RPC_TIMEOUT_MARK
from tuner.torch_private.exceptions import served_error
from tuner.trace.record.driver import unrecorded
from tuner.world.descendants import end_descendants
from tuner.world.launcher import MEETING, RankTask
from tuner.world.measurement import MOST_CHARACTERS, MOST_OF_DETAIL
from tuner.world.postmortem import HANDING_OVER
from tuner.world.rank.rank_channel import RankEnd
from tuner.world.rank.thread_states import rpc_state
from tuner.world.rank.timing import StepTimer, time_traced_steps
from workloads import Rank, Workload, World
from workloads.registry import load_workload

_MEET = timedelta(seconds=60)
"""How long rank 0 may take to be there."""


def run_rank(task: RankTask, connection: socket.socket) -> None:
    """Run one rank. After a failure it reports that, and waits to be ended."""
    _isolate(task)
    parent = RankEnd(connection, rpc_state)
    try:
        _work(task, parent)
    except BaseException as error:
        parent.send(
            "failed",
            phase=parent.phase,
            failure=_failure_kind(parent.phase, error),
            error=_one_line(error),
            traceback=shortened(_read("the traceback", traceback.format_exc), MOST_OF_DETAIL),
        )
        # Leaving now would reset the peers' connections and hide who failed first.
        while True:
            signal.pause()
    end_descendants(os.getpid())


def _work(task: RankTask, parent: RankEnd) -> None:
    order = task.order
    parent.enter("setup")
    process_knobs = ProcessKnobs("the workload")
    torch.set_num_threads(task.spec.intra_op_threads)
    try:
        process_knobs.apply(task.values, *task.place)
    except OSError:
        raise OverriddenError(process_knobs.overridden()) from None
    random.seed(order.seed + task.rank)
    torch.manual_seed(order.seed + task.rank)
    workload: Workload = load_workload(task.spec.reference)(**task.spec.options)
    ranks = tuple(Rank(rank.name, rank.role) for rank in task.spec.ranks)
    world = World(task.rank, ranks, order.seed)

    parent.enter("init_rpc")
    if task.init_method is not None:
        _enable_meeting(task.rank, len(ranks))
    rpc.init_rpc(  # type: ignore[no-untyped-call]
        task.name,
        rank=task.rank,
        world_size=len(ranks),
        rpc_backend_options=tensorpipe_options(
            **agent_options(task.values),
            init_method=task.init_method or f"file://{task.scratch / 'store'}",
        ),
    )
    parent.enter("setup")
    workload.setup(world)
    parent.enter("ready")
    if task.rank == 0:
        _drive(task, parent, workload, world)
    parent.wait_for("stop")
    if overridden := process_knobs.overridden():
        raise OverriddenError(overridden)
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - one system call, no objects
    parent.enter("teardown")
    workload.teardown(world)
    parent.enter("shutdown")
    rpc.shutdown()
    peak_rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    usage = {"threads": threads, "peak_rss_mb": peak_rss_mb}
    parent.send("finished", **usage)
    if task.rank == 0 and task.init_method is not None:
        # The store where the ranks met is in this process, and they may not have left it yet.
        parent.wait_for("leave")


def _drive(task: RankTask, parent: RankEnd, workload: Workload, world: World) -> None:
    order, pids = task.order, parent.wait_for("go")["pids"]
    names = [rank.name for rank in task.spec.ranks]
    timer = StepTimer(
        lambda: workload.step(world),
        min_time_s=order.min_time_s,
        cpu_clocks=lambda: cpu_clocks(pids, names),
        on_step=partial(setattr, parent, "steps_done"),
    )
    parent.enter("step")
    timer.warm_up()
    if order.trace is None:
        timing, tracing_overhead = timer.time(order.steps), None
    else:
        assert order.steps is not None
        traced = time_traced_steps(timer, order.steps, order.trace, partial(_handing_over, parent))
        timing, tracing_overhead = traced
    parent.enter("check")
    workload.check(world)
    parent.send("result", tracing_overhead=tracing_overhead, **timing._asdict())


@contextmanager
def _handing_over(parent: RankEnd) -> Iterator[None]:
    phase = parent.phase
    parent.enter(HANDING_OVER)
    try:
        yield
    finally:
        parent.enter(phase)


class OverriddenError(Exception):
    """The workload has set what its configuration sets."""


def _isolate(task: RankTask) -> None:
    for descriptor, suffix in ((1, "stdout"), (2, "stderr")):
        captured = os.open(task.scratch / f"{task.name}.{suffix}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(captured, descriptor)
        os.close(captured)
    for stream in (sys.stdout, sys.stderr):
        # Unflushed lines would be lost with a process that is killed.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    faulthandler.enable()
    stacks = (task.scratch / f"{task.name}.stacks").open("w")
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    os.environ.update(task.environment)


def _one_line(error: BaseException) -> str:
    """The error, or the one that a served function raised, and its message; without one, as of a
    bare assert, the line that raised it."""
    message = _message(error)
    if raised := served_error(message):
        return shortened(raised, MOST_CHARACTERS)
    if not message and (frames := traceback.extract_tb(error.__traceback__)):
        message = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line}"
    return f"{type(error).__name__}: {shortened(message, MOST_CHARACTERS)}"


def _message(error: BaseException) -> str:
    return _read("its message", lambda: str(error).strip())


def _read(what: str, text: Callable[[], str]) -> str:
    try:
        return text()
    except Exception as problem:
        return f"{what} cannot be read: {type(problem).__name__}"


def _failure_kind(phase: str, error: BaseException) -> str:
    if phase == "init_rpc" or isinstance(error, OverriddenError):
        return "init-failed"
    if phase == "check":
        return "wrong-answer"
    if isinstance(error, TraceError):
        return "trace-failed"
    return "timed-out" if RPC_TIMEOUT_MARK in _message(error) else "crashed"


def cpu_clocks(pids: Sequence[int | None], names: Sequence[str]) -> list[float]:
    """The CPU seconds of each rank so far; a rank of another host has no process id."""
    far = [name for pid, name in zip(pids, names, strict=True) if pid is None]
    # No step is under way, and these calls are none of the workload's.
    with unrecorded():
        futures = [rpc.rpc_async(name, time.process_time) for name in far]
        answers = iter([float(future.wait()) for future in futures])
    # The CPU-time clock of another process on this host is as `clock_getcpuclockid(3)` makes it.
    return [next(answers) if pid is None else time.clock_gettime((~pid << 3) | 2) for pid in pids]


def _enable_meeting(rank: int, ranks: int) -> None:
    """Let `init_rpc` understand `rpc-tuner://ADDRESS:PORT`. PyTorch's own `tcp://` listens on every
    address of the host: whoever can reach it could ask the ranks to call somebody else."""

    def meet(url: str, **_: object) -> Iterator[tuple[TCPStore, int, int]]:
        place = urlsplit(url)
        host, port, is_first = str(place.hostname), int(place.port or 0), rank == 0
        store = TCPStore(
            host, port, is_master=is_first, timeout=_MEET, wait_for_workers=False,
            master_listen_fd=socket.create_server((host, port)).detach() if is_first else None,
        )  # fmt: skip
        yield store, rank, ranks

    register_rendezvous_handler(MEETING, meet)  # type: ignore[no-untyped-call]

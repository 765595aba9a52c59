"""Runs in every process of a world: initialises RPC, runs the workload, reports, shuts down."""

import faulthandler
import io
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import orjson
import torch
import torch.distributed.rpc as rpc

from tuner.errors import TraceError
from tuner.torch_private.agent import tensorpipe_options
from tuner.torch_private.answers import RPC_TIMEOUT_MARK
from tuner.world.agent_options import agent_options
from tuner.world.rank import probe
from tuner.world.rank.task import RankTask
from tuner.world.rank.timing import StepTimer, process_cpu_clock
from tuner.world.rank.traced import time_traced_steps
from workloads import Rank, Workload, World
from workloads.registry import load_workload


class _Parent:
    """The line to the launcher: JSON messages. A thread of its own answers probes at any time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._arrived: dict[str, dict[str, Any]] = {}
        self._arrival = threading.Condition()
        self.phase = "start"
        self.steps_done = 0
        threading.Thread(target=self._listen, name="rpc-tuner-control", daemon=True).start()

    def send(self, kind: str, **fields: object) -> None:
        with self._sending:
            self._connection.send_bytes(
                orjson.dumps({"kind": kind, "time_ns": time.time_ns(), **fields})
            )

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.send("phase", phase=phase)

    def wait_for(self, kind: str) -> dict[str, Any]:
        with self._arrival:
            self._arrival.wait_for(lambda: kind in self._arrived)
            return self._arrived[kind]

    def _listen(self) -> None:
        try:
            with suppress(EOFError, OSError):
                while True:
                    self._take(orjson.loads(self._connection.recv_bytes()))
        finally:
            # The launcher is gone, or has let go of this world: nothing of it may stay.
            os.killpg(0, signal.SIGKILL)

    def _take(self, message: dict[str, Any]) -> None:
        if message["kind"] != "probe":
            with self._arrival:
                self._arrived[message["kind"]] = message
                self._arrival.notify_all()
            return
        try:
            state = probe.rpc_state()
        except Exception:
            # Only an answer is lost: without this thread the rank would outlive its launcher.
            traceback.print_exc()
            return
        self.send("state", steps_done=self.steps_done, **state)


def run_rank(task: RankTask, connection: Connection) -> None:
    """Run one rank. After a failure it reports that, and waits to be ended."""
    _isolate(task)
    parent = _Parent(connection)
    try:
        _work(task, parent)
    except BaseException as error:
        parent.send(
            "failed",
            phase=parent.phase,
            failure=_failure_kind(parent.phase, error),
            error=_one_line(error),
            traceback=traceback.format_exc(),
        )
        _wait_to_be_ended()


def _work(task: RankTask, parent: _Parent) -> None:
    parent.enter("setup")
    torch.set_num_threads(task.intra_op_threads)
    random.seed(task.seed + task.rank)
    torch.manual_seed(task.seed + task.rank)
    workload: Workload = load_workload(task.reference)(**task.options)
    world = World(task.rank, tuple(Rank(*rank) for rank in task.ranks), task.seed)

    parent.enter("init_rpc")
    rpc.init_rpc(  # type: ignore[no-untyped-call]
        task.name,
        rank=task.rank,
        world_size=len(task.ranks),
        rpc_backend_options=tensorpipe_options(
            **agent_options(task.values), init_method=f"file://{task.scratch / 'store'}"
        ),
    )
    parent.enter("setup")
    workload.setup(world)
    parent.enter("ready")
    if task.rank == 0:
        _drive(task, parent, workload, world)
    parent.wait_for("stop")
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - one system call, no objects
    parent.enter("teardown")
    workload.teardown(world)
    parent.enter("shutdown")
    rpc.shutdown()
    peak_rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    parent.send("finished", threads=threads, peak_rss_mb=peak_rss_mb)


def _drive(task: RankTask, parent: _Parent, workload: Workload, world: World) -> None:
    pids = parent.wait_for("go")["pids"]

    def count(done: int) -> None:
        parent.steps_done = done

    timer = StepTimer(
        lambda: workload.step(world),
        min_time_s=task.min_time_s,
        cpu_clocks=[process_cpu_clock(pid) for pid in pids],
        on_step=count,
    )
    parent.enter("step")
    timer.warm_up()
    tracing_overhead = None
    if task.trace is None:
        timing = timer.time(task.steps)
    else:
        assert task.steps is not None
        traced = time_traced_steps(timer, task.steps, task.trace)
        timing, tracing_overhead = traced.timing, traced.tracing_overhead
    parent.enter("check")
    workload.check(world)
    parent.send(
        "result",
        step_s=timing.step_s,
        wall_s=timing.wall_s,
        cpu_s=timing.cpu_s,
        tracing_overhead=tracing_overhead,
    )


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
    # RPC runs any function it is sent: listening beyond loopback would be an open door.
    os.environ["TP_SOCKET_IFNAME"] = "lo"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"


def _one_line(error: BaseException) -> str:
    """The error and its message; without one, as of a bare assert, the line that raised it."""
    message = str(error).strip()
    frames = traceback.extract_tb(error.__traceback__)
    if not message and frames:
        message = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line}"
    return f"{type(error).__name__}: {message}"


def _failure_kind(phase: str, error: BaseException) -> str:
    if phase == "init_rpc":
        return "init-failed"
    if phase == "check":
        return "wrong-answer"
    if isinstance(error, TraceError):
        return "trace-failed"
    if RPC_TIMEOUT_MARK in str(error):
        return "timed-out"
    return "crashed"


def _wait_to_be_ended() -> NoReturn:
    # Leaving now would reset the peers' connections and hide who failed first.
    while True:
        signal.pause()

"""What a run of a person's program costs: warm beside cold, and recorded beside not, in turns."""

import os
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.benchmarks.programs import ROOT, command
from lab.benchmarks.report import Comparison, in_turns, log_ratio
from testing.known import known
from testing.programs import PROGRAMS, PYTHON
from tuner.plan.config import Config
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.program_channel import ProgramChannel
from tuner.world.command.program_commands import ColdStarter, Starter
from tuner.world.command.warm.warm_starting import Learnt, WarmStarter, learn

ROUNDS, RECORDED_RUNS = 5, 41
TURNS = 32
# The programs import this package's workloads.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
DEFAULT = Config(())


@dataclass(frozen=True)
class Run:
    took_s: float
    rpc_s: float | None
    printed: str
    learnt: Learnt


def run_once(
    starter: Starter, *, recording: RecordingOrder | None = None, learns: bool = False,
    config: Config = DEFAULT,
) -> Run:  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as name,
        tempfile.TemporaryFile("w+") as output,
        closing(ProgramChannel(folder := Path(name))) as channel,
    ):
        order = HookOrder(config=config, reports=folder, recording=recording, learn=learns)
        started_s = time.perf_counter()
        code = starter.start(order.environment(ENVIRONMENT), output.fileno(), 2).wait()
        took_s = time.perf_counter() - started_s
        output.seek(0)
        printed = output.read()
        assert code == 0, printed
        rpc_active_s = channel.report().rpc_active_s
        return Run(took_s, rpc_active_s, printed, learn(channel.messages()))


def started_warm(command: list[str], folder: Path, learnt: Learnt) -> WarmStarter:
    hooked = HookOrder(config=DEFAULT, reports=folder).environment(ENVIRONMENT)
    return WarmStarter(command, hooked, folder, learnt)


def warm_start() -> list[Comparison]:
    """The run, and RPC in it, which a warm start may not change."""
    spawning = [*PYTHON, "spawn_env.py", "3", "20"]
    cold = ColdStarter(spawning, PROGRAMS)
    with started_warm(spawning, PROGRAMS, run_once(cold, learns=True).learnt) as warm:
        sides = in_turns(ROUNDS, lambda: run_once(warm), lambda: run_once(cold))
    took_s = [statistics.median(run.took_s for run in side) for side in sides]
    rpc_s = [statistics.median(known(run.rpc_s) for run in side) for side in sides]
    what, names = "a world of an mp.spawn program of 3 ranks", ("warm start", "cold start")
    return [
        Comparison(what, *names, took_s[0], took_s[1], least_ratio=5.0),
        Comparison("RPC in it", *names, rpc_s[0], rpc_s[1]),
    ]


def recording_overhead() -> list[Comparison]:
    """The median overhead of several runs, each of which starts again.

    Each prints its median step time while it is recorded, over that while not.
    """
    udf, recording = command("udf", TURNS), RecordingOrder()
    learnt = run_once(ColdStarter(udf, ROOT), recording=recording, learns=True).learnt
    with started_warm(udf, ROOT, learnt) as warm:
        runs = [run_once(warm, recording=recording) for _ in range(RECORDED_RUNS)]
    overheads = np.array([float(run.printed) for run in runs])
    return [
        Comparison(
            "recorded over unrecorded step of a program, udf", "spans of tuner.record",
            "not recorded", float(np.median(overheads)), 1.0, "x",
            log_ratio(np.ones(len(runs)), overheads).exp(), most=1.05,
        )
    ]  # fmt: skip

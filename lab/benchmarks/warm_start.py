"""What a run of a person's program costs: cold, as a command, and warm, in turns."""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lab.benchmarks.report import Bar, Comparison
from tuner.plan.config import Config
from tuner.world.command.order import HookOrder
from tuner.world.command.program_commands import ColdStarter, Starter
from tuner.world.command.reports import read_reports
from tuner.world.command.warm.warm_starting import Learnt, WarmStarter, learn

ROUNDS = 5
PROGRAMS = Path(__file__).parents[2] / "tests" / "programs"
COMMAND = [sys.executable, "-W", "ignore", "spawn_env.py", "3", "20"]


def run_once(starter: Starter, *, learning: bool = False) -> tuple[float, float, Learnt]:
    """Seconds of one run, those of RPC among them, and what the run shows."""
    with tempfile.TemporaryDirectory() as folder:
        order = HookOrder(config=Config(()), reports=Path(folder), learn=learning)
        started_s = time.perf_counter()
        with Path(os.devnull).open("wb") as nowhere:
            process = starter.start(order.environment(os.environ), nowhere.fileno(), 2)
        code = process.wait()
        took_s = time.perf_counter() - started_s
        report = read_reports(Path(folder))
        assert code == 0, report
        assert report.rpc_active_s is not None
        return took_s, report.rpc_active_s, learn(Path(folder))


def run() -> list[Comparison]:
    """The run, and RPC in it, which a warm start may not change."""
    cold = ColdStarter(COMMAND, PROGRAMS)
    learnt = run_once(cold, learning=True)[2]
    environment = HookOrder(config=Config(()), reports=PROGRAMS).environment(os.environ)
    with WarmStarter(COMMAND, environment, PROGRAMS, learnt) as warm:
        rounds = [(run_once(warm)[:2], run_once(cold)[:2]) for _ in range(ROUNDS)]
    warm_s, cold_s = (
        [statistics.median(each[place] for each in side) for place in (0, 1)]
        for side in zip(*rounds, strict=True)
    )
    what, sides = "a world of an mp.spawn program of 3 ranks", ("warm start", "cold start")
    return [
        Comparison(what, *sides, warm_s[0], cold_s[0], bar=Bar(least_ratio=5.0)),
        Comparison("RPC in it", *sides, warm_s[1], cold_s[1]),
    ]

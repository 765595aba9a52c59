"""What recording costs a program: its steps recorded and not, in turns."""

import os
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from lab.benchmarks import programs
from lab.benchmarks.report import Bar, Comparison, log_ratio
from tests.programs.running import free_port
from tuner.plan.config import Config
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.program_commands import ColdStarter, Starter
from tuner.world.command.warm.warm_starting import WarmStarter, learn

RUNS = 41
TURNS = 32
ROOT = Path(__file__).parents[2]
DEFAULT = Config(())


def run(runs: int = RUNS) -> list[Comparison]:
    """The median overhead of so many runs, each of which starts again."""
    command = [sys.executable, "-W", "ignore", programs.__file__, "udf", free_port(), str(TURNS)]
    with tempfile.TemporaryDirectory() as folder:
        overhead(ColdStarter(command, ROOT), Path(folder), learns=True)
        learnt = learn(Path(folder))
    hooked = HookOrder(config=DEFAULT, reports=ROOT).environment(environment())
    overheads = []
    with WarmStarter(command, hooked, ROOT, learnt) as warm:
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                overheads.append(overhead(warm, Path(folder)))
    logs = log_ratio(np.ones(len(overheads)), np.array(overheads))
    return [
        Comparison(
            "recorded over unrecorded step of a program, udf", "spans of tuner.record",
            "not recorded", statistics.median(overheads), 1.0, "x", Bar(most=1.05), logs.exp(),
        )
    ]  # fmt: skip


def overhead(starter: Starter, folder: Path, *, learns: bool = False) -> float:
    """What one run prints: its median step time while it is recorded, over that while not."""
    order = HookOrder(config=DEFAULT, reports=folder, recording=RecordingOrder(), learn=learns)
    with (folder / "output").open("w+b") as output:
        code = starter.start(order.environment(environment()), output.fileno(), 2).wait()
        output.seek(0)
        printed = output.read()
    assert code == 0, printed
    return float(printed)


def environment() -> dict[str, str]:
    """The program imports this package's workloads."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}

"""What recording costs a program: the same program recorded and not, in turns."""

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.benchmarks.report import Bar, Comparison
from tests.programs.running import free_port
from tuner.decide.statistics import interval
from tuner.plan.config import Config, Dimension
from tuner.world.command.order import HookOrder, RecordingOrder
from tuner.world.command.reports import read_reports
from tuner.world.command.warm.learning import learn
from tuner.world.command.warm.starting import ColdStarter, Starter
from tuner.world.command.warm.warm_starting import WarmStarter

ROUNDS = 15
STEPS = 300
CONFIDENCE = 0.95
ROOT = Path(__file__).parents[2]
DEFAULT = Config(())
# The default transport polls, so that the CPU time follows the wall time.
WITHOUT_POLLING = Config.of({Dimension("*", "transports"): ("uv",)})


class Cost(NamedTuple):
    """What RPC costs in one run, in seconds."""

    rpc_active_s: float
    cpu_s: float
    """Of all ranks."""


def cost(starter: Starter, folder: Path, order: HookOrder) -> Cost:
    """Run the program once."""
    with Path(os.devnull).open("wb") as nowhere:
        process = starter.start(order.environment(environment()), nowhere.fileno(), 2)
    code = process.wait()
    report = read_reports(folder)
    assert code == 0, report
    assert report.rpc_active_s is not None
    used = [rank.cpu_s for rank in report.ranks]
    return Cost(report.rpc_active_s, sum(cpu_s or 0.0 for cpu_s in used))


def environment() -> dict[str, str]:
    """The program imports this package's workloads."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run(rounds: int = ROUNDS) -> list[Comparison]:
    """The overhead in RPC-active time, and in CPU time."""
    program = str(Path(__file__).with_name("udf_program.py"))
    command = [sys.executable, "-W", "ignore", program, str(STEPS), free_port()]
    with tempfile.TemporaryDirectory() as folder:
        order = HookOrder(config=DEFAULT, reports=Path(folder), learn=True)
        cost(ColdStarter(command, ROOT), Path(folder), order)
        learnt = learn(Path(folder))
    hooked = HookOrder(config=DEFAULT, reports=ROOT).environment(environment())
    with WarmStarter(command, hooked, ROOT, learnt) as warm:
        overheads = [
            (overhead(warm, DEFAULT).rpc_active_s, overhead(warm, WITHOUT_POLLING).cpu_s)
            for _ in range(rounds)
        ]
    times, cpu_times = zip(*overheads, strict=True)
    bars = (Bar(most=1.05),)
    return [compare("RPC-active time", times, bars), compare("CPU time", cpu_times)]


def overhead(starter: Starter, config: Config) -> Cost:
    """What a recorded run costs over what one costs that is not; each twice, in turns."""
    costs: dict[bool, list[Cost]] = {False: [], True: []}
    for is_recorded in (False, True, True, False):
        with tempfile.TemporaryDirectory() as folder:
            recording = RecordingOrder() if is_recorded else None
            order = HookOrder(config=config, reports=Path(folder), recording=recording)
            costs[is_recorded].append(cost(starter, Path(folder), order))
    plain, recorded = (np.array(costs[key]).sum(axis=0) for key in (False, True))
    return Cost(*(recorded / plain).tolist())


def compare(name: str, overheads: tuple[float, ...], bars: tuple[Bar, ...] = ()) -> Comparison:
    """The median, and the interval of the inverse, as comparisons have it."""
    logs = interval(-np.log(np.array(overheads)), CONFIDENCE)
    assert logs is not None
    return Comparison(
        name=f"recorded over plain program, udf: {name}",
        ours="spans of tuner.record",
        theirs="not recorded",
        ours_value=statistics.median(overheads),
        theirs_value=1.0,
        unit="x",
        bars=bars,
        interval=logs.exp(),
    )

"""What a world costs beyond its measured time: the local launcher beside the recipe's spawn."""

import statistics
import subprocess
import sys
from pathlib import Path

from lab.benchmarks.measured_world import measured_world
from lab.benchmarks.report import Bar, Comparison
from lab.benchmarks.spawn_world import STEPS
from tuner.world.local.local_launcher import LocalLauncher

# By the number of ranks: as the recipe does it, a world of 5 takes eight seconds.
ROUNDS = {2: 5, 5: 3}
FAN_OUT = "lab.benchmarks.fan_out:FanOut"


def spawn_cost_s(ranks: int) -> float:
    """Seconds of one world launched as in the recipe."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "lab.benchmarks.spawn_world", str(ranks)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return float(done.stdout)


def local_cost_s(launcher: LocalLauncher, ranks: int) -> float:
    """Seconds of one world of the local launcher."""
    world = measured_world(launcher, FAN_OUT, STEPS, options={"servers": ranks - 1})
    return world.world_s - world.wall_s


def measure(launcher: LocalLauncher, ranks: int) -> Comparison:
    """Both sides in turn, as often as ROUNDS says; the medians."""
    local, spawn = [], []
    for _ in range(ROUNDS[ranks]):
        local.append(local_cost_s(launcher, ranks))
        spawn.append(spawn_cost_s(ranks))
    return Comparison(
        name=f"cost of a world of {ranks} ranks",
        ours="local launcher",
        theirs="mp.spawn, as in the recipe",
        ours_value=statistics.median(local),
        theirs_value=statistics.median(spawn),
        bars=(Bar(least_ratio=8.0, most=0.3),) if ranks == 2 else (),
    )


def run() -> list[Comparison]:
    """The comparisons for 2 and 5 ranks."""
    with LocalLauncher() as launcher:
        local_cost_s(launcher, 2)  # the first world pays the forkserver's import of torch
        return [measure(launcher, ranks) for ranks in ROUNDS]

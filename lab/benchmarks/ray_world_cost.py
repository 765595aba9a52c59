"""What a world costs on a warm host of a Ray cluster, beside one of the local launcher."""

import statistics

from lab.benchmarks.measured_world import measured_world
from lab.benchmarks.report import Bar, Comparison
from lab.benchmarks.spawn_world import STEPS
from lab.benchmarks.world_cost import FAN_OUT
from tuner.world.launcher import WorkloadLauncher
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.ray.ray_launcher import RayLauncher

ROUNDS = 15
LEAST_RATIO = 1 / 1.5


def cost_s(launcher: WorkloadLauncher, ranks: int) -> float:
    """Seconds of one world beyond its measured time."""
    world = measured_world(launcher, FAN_OUT, STEPS, options={"servers": ranks - 1})
    return world.world_s - world.wall_s


def run() -> list[Comparison]:
    """The comparison for 2 and 5 ranks on one host."""
    found = []
    with LocalLauncher() as local, RayLauncher() as on_ray:
        for ranks in (2, 5):
            # The first world pays for the import of torch, and for the host's actor.
            cost_s(local, ranks)
            cost_s(on_ray, ranks)
            pairs = [(cost_s(on_ray, ranks), cost_s(local, ranks)) for _ in range(ROUNDS)]
            ours, theirs = (statistics.median(each) for each in zip(*pairs, strict=True))
            found.append(
                Comparison(
                    name=f"cost of a world of {ranks} ranks on Ray",
                    ours="a warm host of a Ray cluster",
                    theirs="local launcher",
                    ours_value=ours,
                    theirs_value=theirs,
                    bars=(Bar(least_ratio=LEAST_RATIO),),
                )
            )
    return found

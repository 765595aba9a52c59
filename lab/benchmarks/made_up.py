"""Worlds that nobody ran, for benchmarks of what is done with many."""

import random

from tests.fakes import UDF
from tuner.world.measurement import Measurement, RankUsage


def made_up_world(trial: int, noise: random.Random, steps: int) -> Measurement:
    """A world of a trial: its steps take 2 to 8 ms, with noise between worlds and within."""
    middle_s = (2 + trial % 7) * 1e-3 * noise.lognormvariate(0, 0.1)
    step_s = tuple(middle_s * noise.lognormvariate(0, 0.2) for _ in range(steps))
    wall_s = sum(step_s)
    ranks = tuple(
        RankUsage(name=rank.name, cpu_s=wall_s * 0.9, peak_rss_mb=200.0, threads=20)
        for rank in UDF.ranks
    )
    return Measurement(step_s=step_s, wall_s=wall_s, world_s=wall_s + 0.2, ranks=ranks)

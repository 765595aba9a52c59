"""What a network namespace costs: worlds with one of their own beside worlds without."""

import statistics

from lab.benchmarks.measured_world import measured_world
from lab.benchmarks.report import Bar, Comparison
from lab.benchmarks.spawn_world import STEPS
from lab.benchmarks.world_cost import FAN_OUT
from tuner.world.local.local_launcher import LocalLauncher

ROUNDS = 15


def world_s(launcher: LocalLauncher) -> float:
    """Seconds of one world of two ranks, from its launch to its end."""
    return measured_world(launcher, FAN_OUT, STEPS, options={"servers": 1}).world_s


def run() -> list[Comparison]:
    """Both in turn, ROUNDS times; the medians."""
    with LocalLauncher() as own, LocalLauncher(isolation=False) as shared:
        if not own.own_network:
            return []
        for launcher in (own, shared):
            world_s(launcher)  # the first world pays the forkserver's import of torch
        pairs = [(world_s(own), world_s(shared)) for _ in range(ROUNDS)]
    with_s, without_s = (statistics.median(side) for side in zip(*pairs, strict=True))
    return [
        Comparison(
            name="a world of 2 ranks, by its network",
            ours="a network of its own",
            theirs="the machine's (--no-isolation)",
            ours_value=with_s,
            theirs_value=without_s,
            bars=(Bar(least_ratio=0.9),),
        )
    ]

"""Blocks per minute with 1, 2 and 4 groups, of a workload that sleeps.

A sleeping world needs hardly any CPU, so the groups may share the CPUs of a small machine: what
shows is what hands out the blocks.
"""

import os
import tempfile
import time
from pathlib import Path

import tuner
from lab.benchmarks.report import Comparison
from tuner.searching.progress_reports import Silent, Snapshot
from tuner.world.launcher import GroupedLauncher
from tuner.world.local.local_launcher import LocalLauncher

BLOCKS_PER_GROUP = 4
# Longer than any world is to last, so that each has one step, and all blocks are alike. Worlds of
# several steps last as long as their noise tells, which differs from search to search.
STEP_MS = 2000
BARS = {2: 1.8, 4: 3.4}


class _Timing(Silent):
    """When each world of the race was done."""

    def __init__(self) -> None:
        # By the number of worlds then; a look tells the same number again.
        self.race_s: dict[int, float] = {}

    def on_snapshot(self, snapshot: Snapshot) -> None:
        if snapshot.phase == "race":
            self.race_s.setdefault(snapshot.worlds, time.monotonic())


def seconds_per_block(groups: int) -> float:
    """How long a block of two sleeping configurations takes, with so many groups."""
    cpus = os.sched_getaffinity(0)
    launcher = GroupedLauncher([LocalLauncher(cpus) for _ in range(groups)])
    blocks, timing = BLOCKS_PER_GROUP * groups, _Timing()
    with tempfile.TemporaryDirectory() as scratch:
        answer = tuner.tune(
            "udf_sleep", options={"sleep_ms": STEP_MS, "calls": 2}, launcher=launcher,
            groups=groups, max_blocks=blocks, budget="10m",
            # What makes no difference, to be known for sure: no look ends the race. The transport
            # waits; shm would poll on a CPU in each process.
            space={"rpc_timeout": [61], "transports": ["uv"]},
            baseline={"rpc_timeout": 60, "transports": "uv"},
            confidence=0.999999, epsilon="0.0001%",
            observer=timing, out=Path(scratch) / "study",
        )  # fmt: skip
    assert answer.blocks == blocks
    first_s, *_, last_s = timing.race_s.values()
    worlds = len(timing.race_s)
    # What each group did before its first world was done is in no part of the time.
    return (last_s - first_s) / (worlds - groups) * worlds / blocks


def run() -> list[Comparison]:
    """The time of a block with 2 and with 4 groups, beside that with one."""
    taken_s = {groups: seconds_per_block(groups) for groups in (1, *BARS)}
    return [
        Comparison(
            f"blocks of a sleeping workload, {groups} groups", f"{groups} groups", "one",
            taken_s[groups], taken_s[1], least_ratio=least,
        )
        for groups, least in BARS.items()
    ]  # fmt: skip

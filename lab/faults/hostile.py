"""Hostile workloads: one world each, its end, what it leaves, and whether the next one runs."""

import time
from functools import partial
from multiprocessing import forkserver
from pathlib import Path

from lab.faults.kit.commands import folder_mb, still_there
from lab.faults.kit.hostile_workloads import ATTACKS, MEASURED
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import HOSTILE
from testing.fakes import order
from tuner.world.descendants import descendants
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import MOST_OF_DETAIL, Failure

DEADLINE_S = 8.0
# A machine that does something else takes its time to end processes.
ENDED_S = 10.0
MOST_MB = 5.0


def _inject(attack: str, expected: str, folder: Path) -> Outcome:
    with LocalLauncher() as launcher:
        spec, good = (
            launcher.describe(f"{HOSTILE}:Hostile", {"attack": each})
            for each in (attack, "nothing")
        )
        started_s = time.monotonic()
        evidence = folder / "failures" / "world"
        outcome = launcher.run(order(spec, deadline_s=DEADLINE_S, failure_folder=evidence))
        seconds = time.monotonic() - started_s
        left = _left()
        following = launcher.run(order(good, deadline_s=60.0, steps=5))
    found = outcome.failure if isinstance(outcome, Failure) else MEASURED
    size = folder_mb(folder) + len(outcome.model_dump_json()) / 2**20
    told, is_short = f"{found} after {seconds:.1f} s", True
    if isinstance(outcome, Failure):
        told += f", {outcome.message[:100]}; evidence of {folder_mb(folder):.2f} MB"
        is_short = len(outcome.detail) < 3 * MOST_OF_DETAIL
    if isinstance(following, Failure):
        told += f"; the next world failed: {following.message[:100]}"
    is_in_time = seconds <= DEADLINE_S + ENDED_S
    survived = found == expected and is_in_time and size <= MOST_MB and is_short
    return Outcome(told=told, survived=survived and not isinstance(following, Failure), left=left)


def _left() -> int:
    """What is left of the world below the forkserver."""
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return len(still_there(lambda: [*descendants(pid)] if pid else []))


ROWS = tuple(
    Row(attack, f"{expected}, and the next world runs", partial(_inject, attack, expected), quick)
    for attack, (_, expected, quick) in ATTACKS.items()
    if attack != "nothing"
)

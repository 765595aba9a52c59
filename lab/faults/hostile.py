"""Hostile workloads: one world each, its end, what it leaves, and whether the next one runs."""

import time
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from lab.faults.kit.commands import LEFT_AFTER_S, folder_mb
from lab.faults.kit.rows import Outcome, Row
from tests.fakes import order
from tuner.world.descendants import descendants
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import MOST_OF_DETAIL, Failure

_FILE = Path(__file__).parent / "kit" / "hostile_workloads.py"
DEADLINE_S = 8.0
# A machine that does something else takes its time to end processes.
ENDED_S = 10.0
MOST_MB = 5.0
MEASURED = "measured"

KINDS: dict[str, tuple[str, str, bool]] = {
    # By the class: what it does, what is expected, whether CI does it, too.
    "ChangesFolder": ("a step changes the working folder", MEASURED, True),
    "PatchesClock": ("a step replaces the clocks of the module time", MEASURED, True),
    "ClosesDescriptors": ("a step closes all descriptors", "crashed", True),
    "ReusesDescriptors": ("a step puts a file in the place of the line", "crashed", True),
    "ClosesStandardStreams": ("a step closes stdin, stdout and stderr", MEASURED, False),
    "LeavesDaemons": ("a step leaves five daemons", MEASURED, True),
    "LeavesSessions": ("a step leaves processes in sessions, without environment", MEASURED, True),
    "LeavesThreads": ("a step leaves 50 threads that never end", MEASURED, False),
    "StopsItself": ("a rank stops itself", "timed-out", False),
    "StopsWhileSending": ("a rank stops itself in the middle of sending", "timed-out", True),
    "SendsGarbage": ("a rank sends garbage to the launcher", "timed-out", False),
    "SendsWhatIsNoMessage": ("a rank sends JSON that is no message", MEASURED, True),
    "PrintsMuch": ("a step prints 100 MB to stderr and raises", "crashed", True),
    "PrintsForever": ("a step prints without end", "timed-out", False),
    "RaisesLongMessage": ("a step raises an error with a text of 50 MB", "crashed", True),
    "RaisesWhatCannotBeShown": ("a step raises an error that has no text", "crashed", True),
    "RaisesControls": ("a step raises an error of control characters", "crashed", False),
    "DoesNothing": ("a step does nothing, in nanoseconds", MEASURED, True),
    "ExitsAtOnce": ("a step ends the process with exit code 0", "crashed", False),
    "RaisesSystemExit": ("a step raises SystemExit", "crashed", False),
    "RaisesKeyboardInterrupt": ("a step raises KeyboardInterrupt", "crashed", False),
    "KillsItself": ("a rank kills itself", "crashed", False),
    "KillsItsGroup": ("a rank kills its process group", "crashed", False),
    "KillsItsPeer": ("a rank kills its peer", "crashed", False),
    "KillsForkserver": ("a rank kills the forkserver", "crashed", True),
    "StopsForkserver": ("a rank stops the forkserver", MEASURED, False),
    "Segfaults": ("a step accesses memory that is not there", "crashed", False),
    "Recurses": ("a step recurses without end", "crashed", False),
    "UsesUpDescriptors": ("a step uses up its descriptors", "crashed", False),
    "ClearsEnvironment": ("a step clears the environment", MEASURED, False),
    "RemovesTemporaryFiles": (
        "a step removes the temporary files of its world",
        "timed-out",
        False,
    ),
    "SetsAnAlarm": ("a signal that nobody handles ends a rank", "crashed", False),
    "HangsInSetup": ("setup never ends", "timed-out", False),
    "HangsInTeardown": ("teardown never ends", "timed-out", False),
    "IgnoresSignals": ("a step ignores signals and never ends", "timed-out", False),
}


def _inject(workload: str, expected: str, folder: Path) -> Outcome:
    with LocalLauncher() as launcher:
        spec = launcher.describe(f"{_FILE}:{workload}", {})
        started_s = time.monotonic()
        evidence = folder / "failures" / "world"
        outcome = launcher.run(order(spec, deadline_s=DEADLINE_S, failure_folder=evidence))
        seconds = time.monotonic() - started_s
        left = _left()
        following = launcher.run(
            order(launcher.describe(f"{_FILE}:Hostile", {}), deadline_s=60.0, steps=5)
        )
    found = outcome.failure if isinstance(outcome, Failure) else MEASURED
    size = folder_mb(folder) + len(outcome.model_dump_json()) / 2**20
    told = f"{found} after {seconds:.1f} s"
    if isinstance(outcome, Failure):
        told += f", {outcome.message[:100]}"
        told += f"; evidence of {folder_mb(folder):.2f} MB"
    if isinstance(following, Failure):
        told += f"; the next world failed: {following.message[:100]}"
    is_short = not isinstance(outcome, Failure) or len(outcome.detail) < 3 * MOST_OF_DETAIL
    survived = (
        found == expected
        and seconds <= DEADLINE_S + ENDED_S
        and size <= MOST_MB
        and is_short
        and not isinstance(following, Failure)
    )
    return Outcome(told=told, survived=survived, left=left)


def _left() -> int:
    """What is left of the world below the forkserver."""
    server: Any = forkserver._forkserver
    until = time.monotonic() + LEFT_AFTER_S
    while True:
        left = [*descendants(server._forkserver_pid)] if server._forkserver_pid else []
        if not left or time.monotonic() > until:
            return len(left)
        time.sleep(0.02)


ROWS = tuple(
    Row(
        fault=fault,
        expected=f"{expected}, and the next world runs",
        inject=partial(_inject, workload, expected),
        is_quick=is_quick,
    )
    for workload, (fault, expected, is_quick) in KINDS.items()
)

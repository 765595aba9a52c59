"""What is left of a program is found by its order, and ended."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tuner.plan.config import Config
from tuner.world.command.order import HookOrder
from tuner.world.command.program_commands import end_tree

DAEMON = (
    "import os, time; os.setsid(); os.fork() and os._exit(0); print(os.getpid(), flush=True); "
    "time.sleep(600)"
)


def test_a_daemon_is_found_by_its_order(tmp_path: Path) -> None:
    order = HookOrder(config=Config.of({}), reports=tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, env=order.environment(os.environ),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        daemon = int(process.stdout.readline())
    end_tree([process.pid], tmp_path)
    left = psutil.Process(daemon).status() if psutil.pid_exists(daemon) else psutil.STATUS_DEAD
    assert left in (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE)

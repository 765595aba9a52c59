"""Programs that leave daemons: nothing is left of them, warm or cold."""

import signal
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from lab.faults.kit.commands import Running, still_there
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import PATIENCE_S, measuring, observations, outcome_of

# In a session of its own, without our environment: nothing but its parents tells whose it is.
_DAEMONS = """
import os, subprocess, sys, torch
import torch.distributed.rpc as rpc
if os.fork() == 0:
    command = [sys.executable, "-S", "-c", "import time; time.sleep(1200)", "{mark}"]
    subprocess.Popen(command, start_new_session=True, env={{}})
    os._exit(0)
os.wait()
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
rpc.init_rpc("worker0", rank=0, world_size=1)
for _ in range(100):
    rpc.rpc_sync("worker0", torch.add, args=(torch.ones(1), 1))
rpc.shutdown()
"""


def _daemons(flags: Sequence[str], number: signal.Signals | None, folder: Path) -> Outcome:
    """Every run of a program leaves a daemon, and the search ends by itself or by a signal."""
    here, mark = folder / "here", uuid.uuid4().hex
    here.mkdir()
    (here / "main.py").write_text(_DAEMONS.format(mark=mark))
    running = Running(
        "tuner.search", "--study", "udf", "--budget", "10m", "--max-blocks",
        "3" if number is None else "300", "--space", "num_worker_threads=2", "--out", "study",
        *flags, "--", sys.executable, "main.py", cwd=here,
    )  # fmt: skip
    if number is not None:
        measuring(running, here / "study")
        running.process.send_signal(number)
    ended = running.ended(PATIENCE_S)
    if number is not None:
        # The next search removes the temporary files of one that was killed.
        ended = replace(ended, left_files=())
    left = still_there(partial(_marked, mark))
    for each in left:
        with suppress(psutil.Error):
            each.kill()
    told = f"exit code {ended.code}, {len(observations(here / 'study'))} observations"
    expected = 0 if number is None else -number
    outcome = outcome_of(ended, here / "study", told, ended.code == expected)
    return replace(outcome, left=len(left) + outcome.left)


def _marked(mark: str) -> list[psutil.Process]:
    every = psutil.process_iter(["cmdline"])
    return [each for each in every if mark in (each.info["cmdline"] or [])]


ROWS = tuple(
    Row(f"each run of a program leaves a daemon: {how}", "it is measured, nothing is left",
        partial(_daemons, flags, number))
    for how, flags, number in (
        ("started warm", (), None),
        ("started cold", ("--cold",), None),
        ("warm, and the command is killed", (), signal.SIGKILL),
        ("cold, and the command is killed", ("--cold",), signal.SIGKILL),
    )
)  # fmt: skip

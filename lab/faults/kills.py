"""SIGKILL of what a search has started, at random moments: it goes on, and bars nothing for it."""

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from lab.faults.kit.commands import Running
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import PATIENCE_S, SEARCH, observations, outcome_of

KILLS, LEAST_KILLS = 30, 10
BUDGET = ("--budget", "150s", "--max-blocks", "300", "--epsilon", "0.1%")
PROGRAM = """
import os, torch
import torch.distributed.rpc as rpc
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
rpc.init_rpc("worker0", rank=0, world_size=1)
for _ in range(100):
    rpc.rpc_sync("worker0", torch.add, args=(torch.ones(1), 1))
rpc.shutdown()
"""
SEARCH_OF_PROGRAM = (
    "tuner.search", "--study", "udf", "--space", "num_worker_threads=2,4", "--out", "study",
)  # fmt: skip

Victims = Callable[[psutil.Process], Sequence[psutil.Process]]
"""From the process of a search to those that may be killed."""


def _forkservers(search: psutil.Process) -> list[psutil.Process]:
    return _of(search.children(), "multiprocessing.forkserver")


def _ranks(search: psutil.Process) -> list[psutil.Process]:
    return [rank for server in _forkservers(search) for rank in server.children()]


def _warm_servers(search: psutil.Process) -> list[psutil.Process]:
    return _of(search.children(), "rpc_tuner_server")


def _program_ranks(search: psutil.Process) -> list[psutil.Process]:
    return [rank for server in _warm_servers(search) for rank in server.children()]


def _of(processes: Sequence[psutil.Process], text: str) -> list[psutil.Process]:
    return [each for each in processes if any(text in part for part in each.cmdline())]


def _killed(victims: Victims, arguments: Sequence[str], folder: Path) -> Outcome:
    """A search one of whose processes is killed each time that two more worlds are measured."""
    here, dice = folder / "here", random.Random(1)
    here.mkdir()
    (here / "main.py").write_text(PROGRAM)
    running = Running(*arguments, cwd=here)
    search = psutil.Process(running.process.pid)
    killed, known, lost = 0, list[tuple[int, int]](), 0

    def two_more() -> bool:
        return len(observations(here / "study")) >= len(known) + 2

    while killed < KILLS and running.awaits(two_more, PATIENCE_S):
        running.awaits(lambda: False, dice.random())
        with suppress(psutil.Error):
            if those := victims(search):
                dice.choice(those).kill()
                killed += 1
        # Not before: the same world must not be killed twice.
        found = observations(here / "study")
        lost += len(set(known) - set(found)) + len(found) - len(set(found))
        known = found
    ended = running.ended(2 * PATIENCE_S)
    found = observations(here / "study")
    lost += len(set(known) - set(found))
    failed = [line for line in ended.stderr.splitlines() if "crashed" in line or "failed" in line]
    told = f"{killed} kills, exit code {ended.code}, {len(found)} observations"
    if failed:
        told += f"; it says {failed[0][:200]}"
    survived = ended.code == 0 and killed >= LEAST_KILLS and not failed
    return outcome_of(ended, here / "study", told, survived, lost)


_COMMAND = ("--", sys.executable, "main.py")

ROWS = tuple(
    Row(
        f"SIGKILL of {what} at {KILLS} random moments",
        "the search goes on, nothing is lost, no configuration is barred",
        partial(_killed, victims, arguments),
    )
    for what, victims, arguments in (
        ("a rank", _ranks, (*SEARCH, *BUDGET)),
        ("the forkserver", _forkservers, (*SEARCH, *BUDGET)),
        ("a rank of a program", _program_ranks, (*SEARCH_OF_PROGRAM, *BUDGET, *_COMMAND)),
    )
)

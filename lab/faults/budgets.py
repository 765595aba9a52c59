"""What never ends, and a budget of 20 s: the search ends in time, wherever it is."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lab.faults.kit.commands import Running
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import HOSTILE, PATIENCE_S, outcome_of
from tuner.searching.budget import END_S, longest_world_s
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study

BUDGET_S = 20
MOST_S = BUDGET_S + longest_world_s(BUDGET_S) + END_S
"""One world and 2 s beyond it."""

_FOREVER = "import time\ntime.sleep(1200)\n"
_WORKLOAD = """
import time
from pathlib import Path
from workloads import Rank, Workload

class Hangs(Workload):
    def ranks(self):
        {ranks}
        return [Rank("worker0", "caller"), Rank("worker1", "server")]

    def setup(self, world):
        ran = Path("ran-" + world.name)
        {setup}

    def step(self, world):
        pass
"""
_PROGRAM = """
import os, time
from pathlib import Path
import torch.distributed.rpc as rpc
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
rpc.init_rpc("worker0", rank=0, world_size=1)
ran = Path("ran")
{then}
rpc.shutdown()
"""
_ONCE = "time.sleep(1200) if ran.exists() else ran.mkdir()"
_TOO_LONG = f"took longer than {BUDGET_S} s and was ended"


def _hangs(
    content: str, subject: Sequence[str], codes: Sequence[int], told: str, folder: Path
) -> Outcome:
    """A search of what is in `subject.py`; it ends with one of these exit codes, and says so."""
    here = folder / "here"
    here.mkdir()
    (here / "subject.py").write_text(content)
    ended = Running(
        "tuner.search", "--budget", f"{BUDGET_S}s", "--study", "hangs", "--out", "study",
        "--space", "num_worker_threads=1,2,3,4,6,8,12,32", *subject, cwd=here,
    ).ended(PATIENCE_S)  # fmt: skip
    spent_s = _spent_s(here / "study") or ended.seconds
    how = f"exit code {ended.code} after {spent_s:.0f} s of {BUDGET_S} s"
    if told not in ended.stderr:
        how += f"; it says {ended.stderr.strip()[-500:]}"
    survived = ended.code in codes and spent_s <= MOST_S and told in ended.stderr
    return outcome_of(ended, here / "study", how, survived)


def _spent_s(study: Path) -> float | None:
    """What the study has noted as spent; None where there is none."""
    if not (study / "study.db").exists():
        return None
    return load_study(StudyPlace.named("hangs", storage=None, out=study)).elapsed_s


def _row(fault: str, content: str, codes: Sequence[int], told: str, subject: Sequence[str]) -> Row:
    return Row(
        fault=f"{fault}, with a budget of {BUDGET_S} s",
        expected=f"it says so after {MOST_S:.0f} s at most",
        inject=partial(_hangs, content, subject, codes, told),
    )


def _workload(fault: str, content: str, codes: Sequence[int], told: str) -> Row:
    return _row(fault, content, codes, told, ("--workload", "subject.py:Hangs"))


def _program(fault: str, content: str, told: str) -> Row:
    return _row(fault, content, (2,), told, ("--", sys.executable, "subject.py"))


ROWS = (
    _row(
        "every one of nine configurations hangs",
        "",
        (3,),
        "only num_worker_threads=16 was tried, and failed in its only world: timed-out",
        ("--workload", f"{HOSTILE}:HangsInSetup"),
    ),
    _workload(
        "every world hangs but the first",
        _WORKLOAD.format(ranks="", setup=_ONCE),
        (0, 3),
        "timed-out",
    ),
    _workload("the module of a workload is never imported", _FOREVER, (2,), _TOO_LONG),
    _workload(
        "a workload never says its ranks",
        _WORKLOAD.format(ranks="time.sleep(1200)", setup="pass"),
        (2,),
        _TOO_LONG,
    ),
    _program(
        "a program neither calls init_rpc nor ends", _FOREVER, "no process has called init_rpc"
    ),
    _program(
        "a program does not end after init_rpc",
        _PROGRAM.format(then="time.sleep(1200)"),
        "the program cannot be tuned: not done after",
    ),
    _program(
        "the second run of a program does not end",
        _PROGRAM.format(then=_ONCE),
        "a second run of the program failed",
    ),
)

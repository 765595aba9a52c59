"""What never ends, and a budget of 20 s: the search ends in time, wherever it is."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import HOSTILE, Sessions, program
from tuner.searching.wall_time import END_S, longest_world_s
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
_ONCE = "time.sleep(1200) if ran.exists() else ran.mkdir()"
_PROGRAM_ONCE = program(then=f"ran = Path('ran')\n{_ONCE}", calls=0)
_TOO_LONG = f"took longer than {BUDGET_S} s and was ended"


def _hangs(
    content: str, subject: Sequence[str], codes: Sequence[int], told: str, folder: Path
) -> Outcome:
    """A search of what is in `subject.py`; it ends with one of these exit codes, and says so."""
    sessions = Sessions(folder, (
        "--budget", f"{BUDGET_S}s", "--space", "num_worker_threads=1,2,3,4,6,8,12,32", *subject,
    ))  # fmt: skip
    (sessions.here / "subject.py").write_text(content)
    ended = sessions.ended(sessions.begin())
    spent_s = ended.seconds
    if (sessions.study / "study.db").exists():
        place = StudyPlace.named("udf", storage=None, out=sessions.study)
        spent_s = load_study(place).elapsed_s or spent_s
    sessions.judge(f"{spent_s:.0f} s of {BUDGET_S} s", spent_s <= MOST_S)
    is_told = told in ended.stderr
    sessions.judge("it says so" if is_told else f"it says {ended.stderr.strip()[-500:]}", is_told)
    return sessions.outcome(ended, *codes)


_OURS = ("--workload", f"{HOSTILE}:Hostile", "--set", "attack=setup never ends")
_THEIRS = ("--workload", "subject.py:Hangs")
_COMMAND = ("--", sys.executable, "subject.py")

ROWS = tuple(
    Row(f"{fault}, with a budget of {BUDGET_S} s", f"it says so after {MOST_S:.0f} s at most",
        partial(_hangs, content, subject, codes, told))
    for fault, subject, content, codes, told in (
        ("every one of nine configurations hangs", _OURS, "", (3,),
         "only num_worker_threads=16 was tried, and failed in its only world: timed-out"),
        ("every world hangs but the first", _THEIRS,
         _WORKLOAD.format(ranks="", setup=_ONCE), (0, 3), "timed-out"),
        ("the module of a workload is never imported", _THEIRS,
         _FOREVER + _WORKLOAD.format(ranks="pass", setup="pass"), (2,), _TOO_LONG),
        ("a workload never says its ranks", _THEIRS,
         _WORKLOAD.format(ranks="time.sleep(1200)", setup="pass"), (2,), _TOO_LONG),
        ("a program neither calls init_rpc nor ends", _COMMAND,
         _FOREVER, (2,), "no process has called init_rpc"),
        ("a program does not end after init_rpc", _COMMAND,
         program(then="time.sleep(1200)", calls=0), (2,),
         "the program cannot be tuned: not done after"),
        ("the second run of a program does not end", _COMMAND,
         _PROGRAM_ONCE, (2,), "a second run of the program failed"),
    )
)  # fmt: skip

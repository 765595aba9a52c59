"""What a search or a recording lacks: room on the disk, open files, its own folder."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from lab.faults.kit.commands import Ended, Running
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import LONG, SEARCH, SHORT, Sessions, program
from testing.disks import FILLING, fill, small_disk

_DISK_MB = 16
_FEW_FILES = 64
_HIDDEN = """
import os, subprocess, sys
path = os.environ["PATH"]
os.environ.clear()
subprocess.run([sys.executable, "main.py"], env={"PATH": path}, check=True)
"""


def _judged(ended: Ended, expected: bool) -> Outcome:
    """The last line that a command has said, which must be the only one of its kind."""
    said = (ended.stderr.strip() or "nothing").splitlines()[-1]
    survived = expected and not ended.has_traceback
    return Outcome(told=f"exit code {ended.code}: {said[:300]}", survived=survived, left=ended.left)


def _full_disk(folder: Path) -> Outcome:
    """A disk that is full as a search is gone on with: a line, and nothing is lost."""
    with small_disk(folder, _DISK_MB) as disk:
        sessions = Sessions(disk, SEARCH)
        sessions.ended(sessions.begin(*SHORT))
        fill(disk)
        again = ("--resume", "--study", "udf", "--out", str(sessions.study))
        refused = Running("tuner.search", *again, cwd=folder / "elsewhere").ended()
        lines = refused.stderr.strip().splitlines()
        is_told = len(lines) == 1 and "No space left on device" in lines[0]
        sessions.judge(f"refused: {lines[-1:]}", refused.code == 2 and is_told)
        (disk / FILLING).unlink()
        return sessions.outcome(sessions.ended(sessions.begin("--max-blocks", "4")))


def _folder_removed(folder: Path) -> Outcome:
    """The folder of a search is removed in its middle: nobody says that what was there is kept."""
    sessions = Sessions(folder, SEARCH)
    running = sessions.begun(*LONG)
    shutil.rmtree(sessions.study)
    ended = running.ended()
    is_told = "is gone, and with it what was measured" in ended.stderr
    is_private = not sessions.study.exists() or sessions.study.stat().st_mode & 0o077 == 0
    says_kept = "Everything measured is kept" in ended.stderr
    return _judged(ended, ended.code == 130 and is_told and is_private and not says_kept)


def _recorded_nowhere(folder: Path) -> Outcome:
    """A recording whose trace cannot be written: the program does not run."""
    here = folder / "here"
    here.mkdir()
    (here / "main.py").write_text("open('ran', 'w')")
    command = ("tuner.record", "--out", "/proc/trace.json", "--", sys.executable, "main.py")
    ended = Running(*command, cwd=here).ended()
    return _judged(ended, ended.code == 2 and not (here / "ran").exists())


def _few_files(command: Sequence[str], folder: Path) -> Outcome:
    here = folder / "here"
    here.mkdir()
    (here / "main.py").write_text(program())
    limited = ("prlimit", f"--nofile={_FEW_FILES}:{_FEW_FILES}")
    ended = Running(*command, cwd=here, inside=limited).ended()
    # A program's own traceback may be shown.
    named = [line for line in ended.stderr.splitlines() if "ulimit -n" in line]
    told = f"exit code {ended.code}: {named[-1:]}"
    return Outcome(told=told, survived=ended.code != 0 and bool(named), left=ended.left)


def _hidden(folder: Path) -> Outcome:
    """A program that starts its ranks without the environment by which they are found."""
    here = folder / "here"
    here.mkdir()
    (here / "main.py").write_text(program())
    (here / "hides.py").write_text(_HIDDEN)
    ended = Running("tuner.record", "--", sys.executable, "hides.py", cwd=here).ended()
    return _judged(ended, ended.code == 2 and "os.environ.clear()" in ended.stderr)


def _interrupted_at_once(folder: Path) -> Outcome:
    """Ctrl-C, which goes to all processes of a terminal, as torch is imported."""
    sessions = Sessions(folder, SEARCH, inside=("setsid", "--wait"))
    bad, left = [], 0
    for tenths in range(0, 30, 6):
        running = sessions.begin(*SHORT)
        running.awaits(lambda: "importing torch" in running.stderr)  # noqa: B023
        running.awaits(lambda: False, tenths / 10)
        for each in running.others():
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGINT)
        ended = running.ended()
        left += ended.left
        if ended.has_traceback or ended.code not in (0, 130):
            bad.append(f"exit code {ended.code}: {ended.stderr[-500:]}")
    return Outcome(told="; ".join(bad) or "5 times", survived=not bad, left=left)


_RECORD = ("tuner.record", "--", sys.executable, "main.py")
_SEARCH = ("tuner.search", "--budget", "60s", "--study", "few")
_INJECT: tuple[tuple[str, str, Callable[[Path], Outcome]], ...] = (
    ("a full disk at --resume", "a line, and nothing is lost", _full_disk),
    ("the study's folder is removed in the middle of a search",
     "it says that what was measured is gone, and leaves no folder that others can read",
     _folder_removed),
    ("record --out names a folder that cannot be written", "the program does not run",
     _recorded_nowhere),
    (f"record with {_FEW_FILES} open files", "the limit is named",
     partial(_few_files, _RECORD)),
    (f"a search of a program with {_FEW_FILES} open files", "the limit is named",
     partial(_few_files, (*_SEARCH, "--", sys.executable, "main.py"))),
    (f"a search of a workload with {_FEW_FILES} open files", "the limit is named",
     partial(_few_files, (*_SEARCH, "--workload", "udf"))),
    ("a program that clears its environment", "that is named as a possible cause", _hidden),
    ("Ctrl-C while torch is imported", "a line, exit code 130, no traceback",
     _interrupted_at_once),
)  # fmt: skip
ROWS = tuple(Row(fault, expected, inject) for fault, expected, inject in _INJECT)

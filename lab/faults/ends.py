"""How searches end: by kills, signals and closed pipes; many worlds, and many at once."""

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from lab.faults.kit.commands import Running
from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import (
    LONG,
    PATIENCE_S,
    SEARCH,
    SHORT,
    Sessions,
    measuring,
    observations,
    outcome_of,
)

KILLS = 30


def _signalled(numbers: Sequence[int], folder: Path) -> Outcome:
    """A search that is sent signals in its middle keeps all, and says how to go on."""
    running = Running(*LONG, cwd=folder / "here")
    study = folder / "here" / "study"
    measuring(running, study)
    known = len(observations(study))
    for number in numbers:
        running.process.send_signal(number)
    ended = running.ended(PATIENCE_S)
    lost = max(0, known - len(observations(study)))
    how = "; everything measured is kept, and this continues it: "
    survived = ended.code == 130 and " --resume " in ended.stderr.partition(how)[2]
    return outcome_of(ended, study, f"exit code {ended.code}, the answer so far", survived, lost)


def _closed_pipe(folder: Path) -> Outcome:
    """`2>&1 | head -1`: the reader goes, and the search ends with what it has measured."""
    here = folder / "here"
    reader, writer = os.pipe()
    running = Running(*LONG, cwd=here, stderr=writer)
    os.close(writer)
    measuring(running, here / "study")
    os.close(reader)
    ended = running.ended(PATIENCE_S)
    survived = ended.code in (130, 141) and bool(observations(here / "study"))
    return outcome_of(ended, here / "study", f"exit code {ended.code}, kept", survived)


def _killed_again_and_again(folder: Path) -> Outcome:
    """SIGKILL at random moments, then --resume: nothing is lost, and nothing is there twice."""
    sessions, dice, killed = Sessions(folder, (*SEARCH[1:], "--budget", "10m")), random.Random(1), 0
    for number in range(KILLS):
        running = sessions.begin("--max-blocks", "300")
        if number % 3:
            sessions.measuring(running, 1)
        running.awaits(lambda: False, 3.0 * dice.random())
        killed += running.process.poll() is None
        running.process.kill()
        sessions.ended(running, is_killed=True)
    sessions.judge(f"{killed} kills", True)
    return sessions.outcome(sessions.ended(sessions.begin("--max-blocks", "2")))


def _ten(folder: Path) -> Outcome:
    every = [Running(*SHORT, cwd=folder / f"here{number}") for number in range(10)]
    ends = [each.ended(600.0) for each in every]
    good = sum(each.code == 0 and not each.has_traceback for each in ends)
    blocks = [len(observations(folder / f"here{number}" / "study")) for number in range(10)]
    told = f"{good} of 10 answered, with {sum(blocks)} observations in all"
    lost = sum(max(0, 6 - found) for found in blocks)
    left = sum(each.left for each in ends)
    return Outcome(told=told, survived=good == 10, lost=lost, left=left)


def _thousand(folder: Path) -> Outcome:
    here = folder / "here"
    running = Running(*SEARCH, "--budget", "60m", "--max-blocks", "250", "--epsilon", "0.1%",
                      cwd=here)  # fmt: skip
    process = psutil.Process(running.process.pid)
    seen: list[tuple[float, int, int, int]] = []

    def look() -> bool:
        with suppress(psutil.Error, OSError):
            if len(observations(here / "study")) // 100 > len(seen):
                files = sum(1 for _ in running.temporary.rglob("*"))
                rss_mb = process.memory_info().rss / 2**20
                seen.append((rss_mb, process.num_fds(), process.num_threads(), files))
        return False

    running.awaits(look, 3600.0)
    ended = running.ended(PATIENCE_S)
    grown = [last - first for first, last in zip(seen[1], seen[-1], strict=True)]
    names = ("MB", "descriptors", "threads", "temporary files")
    told = f"{len(observations(here / 'study'))} observations; from the 200th on " + ", ".join(
        f"{more:+.0f} {name}" for more, name in zip(grown, names, strict=True)
    )
    is_flat = grown[0] < 60 and grown[1] <= 2 and grown[2] <= 2 and grown[3] <= 10
    return outcome_of(ended, here / "study", told, ended.code == 0 and is_flat)


def _twenty_ranks(folder: Path) -> Outcome:
    here = folder / "here"
    ended = Running(
        "tuner.search", "--study", "udf", "--budget", "10m", "--max-blocks", "2",
        "--deadline", "2m", "--space", "num_worker_threads=2", "--workload", "light",
        "--set", "world_size=20", "--set", "calls=20", "--out", "study", cwd=here,
    ).ended(600.0)  # fmt: skip
    found = observations(here / "study")
    told = f"exit code {ended.code}, {len(found)} observations in {ended.seconds:.0f} s"
    return outcome_of(ended, here / "study", told, ended.code == 0, max(0, 4 - len(found)))


def _leftovers(folder: Path) -> Outcome:
    """What a search that was killed has left in the temporary folder goes with the next one."""
    here = folder / "here"
    killed = Running(*LONG, cwd=here)
    measuring(killed, here / "study")
    killed.process.kill()
    first = killed.ended(PATIENCE_S)
    second = Running(*SHORT, "--resume", cwd=here).ended(PATIENCE_S)
    counts = [len(ended.left_files) for ended in (first, second)]
    told = f"{counts[0]} folders after the kill, {counts[1]} after the next"
    return outcome_of(second, here / "study", told, second.code == 0 and bool(first.left_files))


def _long_tmpdir(folder: Path) -> Outcome:
    long = folder / ("x" * 90)
    long.mkdir()
    running = Running(*SHORT, cwd=folder / "here", environment={"TMPDIR": str(long)})
    ended = running.ended(PATIENCE_S)
    survived = ended.code == 2 and "set TMPDIR to a shorter one" in ended.stderr
    return outcome_of(ended, folder / "here", f"exit code {ended.code}, and what to do", survived)


ROWS = (
    *(
        Row(f"{name} in the middle of a search", "exit code 130, all that was measured is kept",
            partial(_signalled, numbers), is_quick=len(numbers) > 1)
        for name, numbers in {
            "SIGHUP": (signal.SIGHUP,),
            "SIGQUIT": (signal.SIGQUIT,),
            "SIGTERM": (signal.SIGTERM,),
            "a burst of SIGINT and SIGHUP": (signal.SIGINT,) * 5 + (signal.SIGHUP,),
        }.items()
    ),
    Row("the reader of stderr ends in the middle of a search",
        "it ends, all that was measured is kept", _closed_pipe),
    Row(f"SIGKILL of the command at {KILLS} random moments",
        "each --resume goes on, nothing is lost, nothing is there twice", _killed_again_and_again),
    Row("leftovers of a killed search in the temporary folder", "the next search removes them",
        _leftovers),
    Row("a TMPDIR that is too long for a socket", "exit code 2, and what to do", _long_tmpdir,
        is_quick=True),
    Row("ten searches at once", "all answer", _ten),
    Row("a world of 20 ranks", "it is measured", _twenty_ranks),
    Row("1,000 worlds in one search",
        "memory, descriptors, threads and temporary files do not grow", _thousand),
)  # fmt: skip

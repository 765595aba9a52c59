"""How searches end: by kills, signals and closed pipes; many worlds, and many at once."""

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import LONG, SEARCH, SHORT, Sessions

KILLS = 30
_LATE_S = 600.0


def _signalled(numbers: Sequence[int], folder: Path) -> Outcome:
    """A search that is sent signals in its middle keeps all, and says how to go on."""
    sessions = Sessions(folder, SEARCH)
    running = sessions.begun(*LONG)
    for number in numbers:
        running.process.send_signal(number)
    ended = sessions.ended(running)
    how = "; everything measured is kept, and this continues it: "
    sessions.judge("the answer so far", " --resume " in ended.stderr.partition(how)[2])
    return sessions.outcome(ended, 130)


def _closed_pipe(folder: Path) -> Outcome:
    """`2>&1 | head -1`: the reader goes, and the search ends with what it has measured."""
    reader, writer = os.pipe()
    sessions = Sessions(folder, SEARCH, stderr=writer)
    running = sessions.begin(*LONG)
    os.close(writer)
    sessions.measuring(running, 6)
    sessions.note()
    os.close(reader)
    return sessions.outcome(sessions.ended(running), 130, 141, least=1)


def _killed_again_and_again(folder: Path) -> Outcome:
    """SIGKILL at random moments, then --resume: nothing is lost, and nothing is there twice."""
    sessions, dice, killed = Sessions(folder, SEARCH), random.Random(1), 0
    for number in range(KILLS):
        running = sessions.begin(*LONG)
        if number % 3:
            sessions.measuring(running, 1)
        running.awaits(lambda: False, 3.0 * dice.random())
        killed += running.process.poll() is None
        running.process.kill()
        sessions.ended(running, is_killed=True)
    sessions.judge(f"{killed} kills", True)
    return sessions.outcome(sessions.ended(sessions.begin(*SHORT)))


def _ten(folder: Path) -> Outcome:
    every = [Sessions(folder / f"{number}", SEARCH) for number in range(10)]
    begun = [(each, each.begin(*SHORT)) for each in every]
    outcomes = [each.outcome(each.ended(running, within_s=_LATE_S), least=6)
                for each, running in begun]  # fmt: skip
    return Outcome(
        told="; ".join(outcome.told for outcome in outcomes),
        survived=all(outcome.survived for outcome in outcomes),
        lost=sum(outcome.lost for outcome in outcomes),
        left=sum(outcome.left for outcome in outcomes),
    )


def _thousand(folder: Path) -> Outcome:
    sessions = Sessions(folder, (*SEARCH, "--epsilon", "0.1%"))
    running = sessions.begin("--max-blocks", "250", "--budget", "60m")
    process = psutil.Process(running.process.pid)
    seen: list[tuple[float, int, int, int]] = []

    def look() -> bool:
        with suppress(psutil.Error, OSError):
            if len(sessions.kept()) // 100 > len(seen):
                files = sum(1 for _ in running.temporary.rglob("*"))
                rss_mb = process.memory_info().rss / 2**20
                seen.append((rss_mb, process.num_fds(), process.num_threads(), files))
        return False

    running.awaits(look, 3600.0)
    ended = sessions.ended(running)
    grown = [last - first for first, last in zip(seen[1], seen[-1], strict=True)]
    names = ("MB", "descriptors", "threads", "temporary files")
    told = ", ".join(f"{more:+.0f} {name}" for more, name in zip(grown, names, strict=True))
    is_flat = all(more <= most for more, most in zip(grown, (60, 2, 2, 10), strict=True))
    sessions.judge(f"from the 200th on {told}", is_flat)
    return sessions.outcome(ended)


def _twenty_ranks(folder: Path) -> Outcome:
    sessions = Sessions(folder, (
        "--budget", "10m", "--deadline", "2m", "--space", "num_worker_threads=2",
        "--workload", "light", "--set", "world_size=20", "--set", "calls=20",
    ))  # fmt: skip
    return sessions.outcome(sessions.ended(sessions.begin(*SHORT), within_s=_LATE_S), least=4)


def _leftovers(folder: Path) -> Outcome:
    """What a search that was killed has left in the temporary folder goes with the next one."""
    sessions = Sessions(folder, SEARCH)
    killed = sessions.begun(*LONG)
    killed.process.kill()
    files = sessions.ended(killed, is_killed=True).left_files
    sessions.judge(f"{len(files)} folders after the kill", bool(files))
    return sessions.outcome(sessions.ended(sessions.begin(*SHORT)))


def _long_tmpdir(folder: Path) -> Outcome:
    long = folder / ("x" * 90)
    long.mkdir()
    sessions = Sessions(folder, SEARCH, environment={"TMPDIR": str(long)})
    ended = sessions.ended(sessions.begin(*SHORT))
    sessions.judge("what to do", "set TMPDIR to a shorter one" in ended.stderr)
    return sessions.outcome(ended, 2)


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

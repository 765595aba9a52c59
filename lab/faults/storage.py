"""Storages that go away, and commands that are killed while they write: `--resume` goes on."""

import itertools
import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from lab.faults.kit.rows import Outcome, Row
from lab.faults.kit.searches import Sessions, fake_search, kept, lost
from testing.fakes import FakeLauncher
from testing.postgresql import PASSWORD, Server, postgresql_server
from tuner.errors import UsageError
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

_KILLED = -signal.SIGKILL
_REFUSED = 2
# So many worlds have run where a study is there for sure.
_BEGUN = 3
# A search of four blocks makes about so many.
_STATEMENTS = 700
_QUOTED = ":no%2Fsecret%40all%3A"


@dataclass
class _Counting(FakeLauncher):
    """Notes every world that it has run in a file, which outlives the process."""

    file: Path = Path()
    sleep_s: float = 0.0

    def run(self, order: WorldOrder) -> Measurement | Failure:
        time.sleep(self.sleep_s)
        outcome = super().run(order)
        with self.file.open("ab") as file:
            file.write(b".")
        return outcome


def _search(folder: Path, storage: str | None, *, sleep_s: float = 0.0, **changes: Any) -> int:
    """Search on a fake launcher; returns the blocks."""
    # So noisy that no answer is clear before the last block.
    launcher = _Counting(file=folder / "worlds", sleep_s=sleep_s, sigma=0.3)
    keys = {"space": {"num_worker_threads": [2, 4]}, "max_blocks": 4, **changes}
    return fake_search(folder / "study", launcher=launcher, name=folder.name, storage=storage,
                       **keys)  # fmt: skip


def _dying(at: int, search: Callable[[], object]) -> int | None:
    """Search in a process that is killed at its statement number `at`; its return code."""
    pid = os.fork()
    if pid == 0:
        statements = itertools.count(1)

        def count(*given: object) -> None:
            if next(statements) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            event.listen(Engine, "before_cursor_execute", count)
            event.listen(Engine, "commit", count)
            search()
            os._exit(0)
        except UsageError as error:
            os.write(2, f"{error}\n".encode())
            os._exit(2)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _killed_at_statements(times: int, folder: Path) -> Outcome:
    chosen, kills, missing, answered = random.Random(times), 0, 0, 0
    for number in range(times):
        study = folder / f"s{number}"
        study.mkdir()
        worlds = study / "worlds"
        code = _dying(chosen.randrange(1, _STATEMENTS), lambda: _search(study, None))  # noqa: B023
        while code == _KILLED:
            kills += 1
            known = kept(study / "study", study.name)
            ran = worlds.stat().st_size if worlds.exists() else 0
            # Without an observation the study is begun anew, and its first world run again.
            missing += ran - len(known) if known else 0
            worlds.write_bytes(b"." * len(known))
            at = chosen.randrange(_STATEMENTS // 4, _STATEMENTS)
            code = _dying(at, lambda: _search(study, None, resume=True))  # noqa: B023
            if code == _REFUSED:  # it was killed before it had a study
                code = _dying(at, lambda: _search(study, None))  # noqa: B023
            missing += lost(known, kept(study / "study", study.name))
        answered += code == 0
    told = f"{kills} kills in {times} searches; {answered} answered"
    return Outcome(told=told, survived=answered == times, lost=missing)


@contextmanager
def _restarting(server: Server, worlds: Path, seed: int) -> Iterator[list[float]]:
    """Crash and start a server at random moments, once worlds run; yields when it did."""
    chosen, over, moments = random.Random(seed), threading.Event(), list[float]()

    def restart() -> None:
        while not over.wait(chosen.uniform(0.3, 1.5)):
            if not worlds.exists() or worlds.stat().st_size < _BEGUN:
                # A storage that is not there at the start is a mistake, which is told at once.
                continue
            moments.append(time.monotonic())
            server.stop(chosen.choice([signal.SIGQUIT, signal.SIGINT]))
            over.wait(chosen.uniform(0.0, 0.5))
            server.start()

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        yield moments
    finally:
        over.set()
        thread.join()


def _server_restarts(blocks: int, folder: Path) -> Outcome:
    study = folder / "restarts"
    study.mkdir()
    with postgresql_server() as server:
        with _restarting(server, study / "worlds", seed=blocks) as moments:
            measured = _search(study, server.url, sleep_s=0.05, max_blocks=blocks, budget="10m")
        known = kept(study / "study", study.name, server.url)
    ran = (study / "worlds").stat().st_size
    told = f"{len(moments)} restarts in {measured} blocks, {ran} worlds"
    return Outcome(told=told, survived=measured == blocks and len(moments) > 0,
                   lost=abs(ran - len(known)))  # fmt: skip


def _real_kills(times: int, folder: Path) -> Outcome:
    chosen = random.Random(times)
    with postgresql_server() as server:
        # Its password is in no argument, which others can see.
        arguments = (
            "--workload", "udf", "--set", "size=50", "--set", "rounds=2",
            "--space", "num_worker_threads=2", "--storage", server.url.replace(_QUOTED, ""),
        )  # fmt: skip
        sessions = Sessions(folder, arguments, server.url, environment={"PGPASSWORD": PASSWORD})
        for number in range(times + 1):
            # Its budget, which counts all sessions, is what a lost storage is waited for.
            budget_s = (12 if number < times else 60) + 8 * number
            running = sessions.begin("--budget", f"{budget_s}s")
            running.awaits(lambda: "block" in running.stderr or "calibrating" in running.stderr)  # noqa: B023
            if number < times:
                time.sleep(chosen.uniform(0.0, 4.0))
                running.process.kill() if number % 2 == 0 else server.stop(signal.SIGQUIT)
            running.process.wait(600.0)
            server.ensure()
            last = sessions.ended(running, is_killed=number < times)
        sessions.judge(f"{times} kills", True)
        return sessions.outcome(last)


ROWS = (
    Row("SIGKILL of a search between two statements of SQLite", "--resume answers",
        partial(_killed_at_statements, 4), is_quick=True, starts_worlds=False),
    Row("SIGKILL of 40 searches between two statements of SQLite, again and again",
        "--resume answers", partial(_killed_at_statements, 40), starts_worlds=False),
    Row("PostgreSQL restarts at random moments, for long", "waited for",
        partial(_server_restarts, 150), starts_worlds=False),
    Row("SIGKILL of the command, or a crash of PostgreSQL, 20 times in a real search",
        "--resume answers", partial(_real_kills, 20)),
)  # fmt: skip

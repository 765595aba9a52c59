"""What the local launcher does with real worlds, and what it says of workloads."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import psutil
import pytest

from testing.fakes import order
from testing.outcomes import measured
from tests.marks import needs_two_cpus
from tests.world.launcher_contract import (
    TROUBLES,
    LauncherContract,
    awaited,
    dozing_search,
    ends,
    fails,
    family_of,
    impatient,
    run,
    several,
)
from tuner.errors import UsageError
from tuner.plan import measuring
from tuner.plan.draft import draft_plan
from tuner.world.local import processes
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure
from tuner.world.postmortem import PARENT_GONE
from tuner.world.rank.entry import _settle_in

pytestmark = pytest.mark.world


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    """The forkserver imports torch once for all tests of the module."""
    with impatient(LocalLauncher()) as running:
        yield running


class TestLocalLauncher(LauncherContract):
    """By the fixture of the module."""


@pytest.mark.parametrize(
    ("workload", "knobs"),
    [
        ("WaitsForItsOwn", {"threads": 1, "steps": 1}),  # looks like a deadlock
        ("Nested", {"threads": 2}),  # is one with one thread
        ("Remembers", {}),
        ("SetsItsOwn", {}),  # may, where its configuration does not
        pytest.param("Bound", {"cpu_binding": "equal"}, marks=needs_two_cpus),
    ],
)
def test_worlds_that_go_well(launcher: LocalLauncher, workload: str, knobs: Any) -> None:
    measured(run(launcher, workload, **knobs))


@pytest.mark.parametrize(
    ("workload", "where"),
    [("Dozes", "s (0 steps done; worker0 in step"), ("TeardownHangs", "worker1 in teardown")],
)
def test_a_world_past_its_deadline_is_ended(
    launcher: LocalLauncher, workload: str, where: str
) -> None:
    for deadline_s in (2.0, 8.0, 40.0):  # a busy machine gets there later
        found = fails(launcher, workload, deadline_s=deadline_s)
        assert found.failure == "timed-out"
        assert f"not done after {deadline_s:g} s" in found.message
        assert found.world_s < 120  # what hangs would hang for 600 s
        if where in found.message:
            return
    raise AssertionError(found.message)


def test_no_process_outlives_a_killed_search(tmp_path: Path) -> None:
    with dozing_search(LocalLauncher.__module__, "LocalLauncher", tmp_path) as search:
        # Tracker, forkserver, two ranks.
        ranks = several(lambda: family_of(search.pid), 4)
    assert all(ends(process.pid, within_s=60) for process in ranks)


@pytest.mark.parametrize(
    ("then", "kind"), [("goes on", None), ("dies", "crashed"), ("hangs", "timed-out")]
)
def test_daemons_end_with_their_world(launcher: LocalLauncher, then: str, kind: str | None) -> None:
    def of_the_forkserver() -> set[int]:
        server: Any = forkserver._forkserver
        family = family_of(server._forkserver_pid)
        return {each.pid for each in family if each.status() != psutil.STATUS_ZOMBIE}

    outcome = run(launcher, "LeavesDaemons", options={"then": then}, deadline_s=8.0)
    assert (outcome.failure if isinstance(outcome, Failure) else None) == kind
    assert awaited(lambda: of_the_forkserver() == set(), within_s=30)


def test_a_forkserver_that_was_stopped_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "RELEASE_S", 0.5)
    process = processes.start_process(None, time.sleep, 600)
    server: Any = forkserver._forkserver
    stopped = server._forkserver_pid
    os.kill(stopped, signal.SIGSTOP)
    processes.end_process(process)
    assert processes.exit_code(process) == PARENT_GONE
    monkeypatch.undo()
    again = processes.start_process(None, time.sleep, 0)
    assert server._forkserver_pid != stopped
    again.join()
    assert again.exitcode == 0
    processes.end_process(again)


def test_a_process_whose_forkserver_is_gone_has_no_exit_code_of_its_own() -> None:
    by_itself = processes.start_process(None, os._exit, 255)
    lost = processes.start_process(None, time.sleep, 600)
    assert awaited(lambda: processes.exit_code(by_itself) is not None)
    server: Any = forkserver._forkserver
    os.kill(server._forkserver_pid, signal.SIGKILL)
    try:
        assert awaited(lambda: processes.exit_code(lost) is not None)
        assert (by_itself.exitcode, lost.exitcode) == (255, PARENT_GONE)
    finally:
        os.kill(lost.pid or 0, signal.SIGKILL)
        processes.end_process(by_itself)
        processes.end_process(lost)


def _sleep() -> None:
    _settle_in(Path.cwd())
    time.sleep(100.0)


def test_ctrl_c_while_a_forkserver_imports_is_for_the_command_alone() -> None:
    """It would print a traceback of what it imports. Processes that it starts take Ctrl-C again."""

    def blocks(pid: int | None) -> bool:
        status = Path(f"/proc/{pid}/status").read_text()
        blocked = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
        return bool(int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1)

    process = processes.start_process(None, _sleep)
    try:
        assert blocks(forkserver._forkserver._forkserver_pid)  # type: ignore[attr-defined]
        assert not blocks(os.getpid())
        until = time.monotonic() + 30.0
        while blocks(process.pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert not blocks(process.pid)
    finally:
        processes.end_process(process)


def test_an_interruption_waits_until_a_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[ForkServerProcess] = []
    start = ForkServerProcess.start

    def interrupted(process: ForkServerProcess) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        start(process)
        started.append(process)

    monkeypatch.setattr(ForkServerProcess, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        processes.start_process(None, time.sleep, 0.0)
    (process,) = started
    processes.end_process(process)


def test_mistakes_in_a_workload_are_reported(launcher: LocalLauncher) -> None:
    for workload, problem in {
        "NoSteps": "does not define step",
        "TwiceTheSameName": "the rank name 'worker0' is used 2 times",
        "NobodyThere": r"ranks\(\) is empty; rank 0 must be there to drive",
    }.items():
        with pytest.raises(UsageError, match=problem):
            launcher.describe(f"{TROUBLES}:{workload}", {})


DESCRIBE = """
import sys
from tuner.world.local.local_launcher import LocalLauncher
with LocalLauncher() as launcher:
    print(*launcher.describe(sys.argv[1], {}).roles)
"""


@pytest.mark.thorough
def test_what_a_module_prints_on_import_stays_off_stdout(tmp_path: Path) -> None:
    module = tmp_path / "chatty.py"
    module.write_text("print('hello')\nfrom testing.troubles import Pair\n")
    done = subprocess.run(
        [sys.executable, "-c", DESCRIBE, f"{module}:Pair"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}, timeout=300,
    )  # fmt: skip
    assert done.stdout == "caller server\n"
    assert "hello" in done.stderr


@pytest.mark.thorough
def test_files_are_named_from_the_folder_that_the_program_is_in_now(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.py").write_text("from testing.troubles import Pair\n")
    spec = launcher.describe("here.py:Pair", {})
    measured(launcher.run(order(spec)))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os\nos._exit(7)",
         "the process that imports it ended without an answer (exit code 7)"),
        ("import time\ntime.sleep(600)",
         "importing and describing it took longer than 0.5 s and was ended"),
    ],
)  # fmt: skip
def test_an_import_that_gives_no_answer_within_the_budget_is_reported(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    module = tmp_path / "module.py"
    module.write_text(code)
    monkeypatch.setattr(measuring, "LEAST_START_S", 0.1)
    budget = "0.5s" if "sleep" in code else "120s"
    with pytest.raises(UsageError) as raised:
        launcher.subject_of(draft_plan({"workload": f"{module}:Anything", "budget": budget}))
    assert str(raised.value) == f"workload {module}:Anything: {told}; what it printed stands above"

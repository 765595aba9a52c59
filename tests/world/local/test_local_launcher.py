"""What the local launcher does with real worlds, good ones and bad ones."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fakes import order
from tests.marks import needs_two_cpus
from tests.world.launcher_contract import TROUBLES, FailureContract, LauncherContract, ends
from tests.world.local.launching import launcher
from tuner.world.launcher import TraceOrder
from tuner.world.local import processes
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement

__all__ = ["launcher"]

pytestmark = pytest.mark.world


def run(
    launcher: LocalLauncher,
    workload: str,
    *,
    threads: int = 2,
    deadline_s: float = 90.0,
    folder: Path | None = None,
    options: dict[str, object] | None = None,
    **knobs: Any,
) -> Measurement | Failure:
    spec = launcher.describe(f"{TROUBLES}:{workload}", options or {})
    return launcher.run(
        order(spec, threads=threads, deadline_s=deadline_s, failure_folder=folder, **knobs)
    )


def failure(outcome: Measurement | Failure) -> Failure:
    assert isinstance(outcome, Failure), outcome
    return outcome


def past_deadline(launcher: LocalLauncher, workload: str, phase: str) -> Failure:
    """How a world ends that is in this phase at its deadline; a busy machine gets there later."""
    for deadline_s in (2.0, 8.0, 40.0):
        found = failure(run(launcher, workload, deadline_s=deadline_s))
        assert found.failure == "timed-out"
        assert f"not done after {deadline_s:g} s" in found.message
        assert found.world_s < 120  # what hangs would hang for 600 s
        if phase in found.message:
            return found
    raise AssertionError(found.message)


class TestLocalLauncher(LauncherContract, FailureContract):
    @pytest.fixture
    def launcher(self, launcher: LocalLauncher) -> LocalLauncher:
        return launcher


def test_a_served_call_that_waits_for_something_else_is_no_deadlock(
    launcher: LocalLauncher,
) -> None:
    outcome = run(launcher, "WaitsForItsOwn", threads=1, steps=1)
    assert isinstance(outcome, Measurement), outcome


@pytest.mark.parametrize("traced", [False, True])
def test_a_workload_that_leaves_its_working_folder_is_measured(
    launcher: LocalLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = launcher.describe(f"{TROUBLES}:Leaves", {"folder": str(tmp_path / "elsewhere")})
    path = Path("traces") / "leaves.json"
    trace = TraceOrder(path=path, operators=True) if traced else None
    outcome = launcher.run(replace(order(spec), trace=trace))
    assert isinstance(outcome, Measurement), outcome
    assert path.exists() == traced
    assert not (tmp_path / "elsewhere" / "traces").exists()


def test_the_same_call_runs_with_two_threads(launcher: LocalLauncher) -> None:
    assert isinstance(run(launcher, "Nested", threads=2), Measurement)


def test_a_world_past_its_deadline_is_ended(launcher: LocalLauncher) -> None:
    found = past_deadline(launcher, "Dozes", "worker0 in step")
    assert "s (0 steps done; worker0 in step" in found.message


def test_what_a_served_function_raises_is_told_with_who_served_it(launcher: LocalLauncher) -> None:
    found = failure(run(launcher, "ServedRaises"))
    assert found.message == (
        "worker0 failed first, in step: ValueError: bad row 7 (in a call that worker1 served)"
    )


def test_a_bare_assert_is_reported_by_its_line(launcher: LocalLauncher) -> None:
    found = failure(run(launcher, "BareAssert"))
    assert found.message.startswith("worker0 failed first, in check: AssertionError: troubles.py:")
    assert found.message.endswith(": assert self.steps < 0")


def test_a_teardown_that_hangs_is_ended(launcher: LocalLauncher) -> None:
    past_deadline(launcher, "TeardownHangs", "worker1 in teardown")


def test_setup_steps_and_check_share_one_object(launcher: LocalLauncher) -> None:
    assert isinstance(run(launcher, "Remembers"), Measurement)


def test_no_process_outlives_a_killed_search(tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    # No main guard: a rank must not run the person's script again.
    script.write_text(
        "from tests.fakes import order\n"
        "from tuner.world.local.local_launcher import LocalLauncher\n"
        "print('started', flush=True)\n"
        "with LocalLauncher() as launcher:\n"
        f"    spec = launcher.describe({str(TROUBLES) + ':Dozes'!r}, {{}})\n"
        "    print('described', flush=True)\n"
        "    launcher.run(order(spec))\n"
    )
    root = Path(__file__).parents[3]
    search = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert search.stdout is not None
    try:
        assert search.stdout.readline() == "started\n"
        assert search.stdout.readline() == "described\n"
        ranks = _wait_for_descendants(search.pid, 4)  # tracker, forkserver, two ranks
    finally:
        search.send_signal(signal.SIGKILL)
        rest = search.communicate()[0]
    assert "started" not in rest
    assert all(ends(process.pid, within_s=60) for process in ranks)


def _wait_for_descendants(pid: int, count: int) -> list[psutil.Process]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = psutil.Process(pid).children(recursive=True)
        if len(found) >= count:
            return found
        time.sleep(0.05)  # polling another process; nothing here can notify
    raise AssertionError("the world did not start")


@pytest.mark.parametrize(
    ("then", "kind"), [("goes on", None), ("dies", "crashed"), ("hangs", "timed-out")]
)
def test_daemons_end_with_their_world(launcher: LocalLauncher, then: str, kind: str | None) -> None:
    def of_the_forkserver() -> set[int]:
        server: Any = forkserver._forkserver
        return {each.pid for each in psutil.Process(server._forkserver_pid).children(recursive=True)
                if each.status() != psutil.STATUS_ZOMBIE}  # fmt: skip

    outcome = run(launcher, "LeavesDaemons", options={"then": then}, deadline_s=8.0)
    assert (outcome.failure if isinstance(outcome, Failure) else None) == kind
    until = time.monotonic() + 30
    while of_the_forkserver() and time.monotonic() < until:
        time.sleep(0.02)
    assert of_the_forkserver() == set()


def test_a_forkserver_that_was_stopped_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "RELEASE_S", 0.5)
    starting = processes.Processes()
    process = starting.start(time.sleep, 600)
    server: Any = forkserver._forkserver
    stopped = server._forkserver_pid
    os.kill(stopped, signal.SIGSTOP)
    processes.end_process(process)
    monkeypatch.undo()
    again = starting.start(time.sleep, 0)
    assert server._forkserver_pid != stopped
    again.join()
    assert again.exitcode == 0
    processes.end_process(again)


@needs_two_cpus
def test_every_thread_of_a_rank_is_bound_to_its_share(launcher: LocalLauncher) -> None:
    assert isinstance(run(launcher, "Bound", cpu_binding="equal"), Measurement)
    assert failure(run(launcher, "Bound")).failure == "crashed"


def test_a_workload_that_overrides_a_process_knob_has_failed_with_it(
    launcher: LocalLauncher,
) -> None:
    found = failure(run(launcher, "SetsItsOwn", switch_interval=0.001))
    assert found.failure == "init-failed"
    assert (
        "the workload set its own switch interval to 20ms after the tool: switch_interval had no "
        "effect"
    ) in found.message
    assert isinstance(run(launcher, "SetsItsOwn"), Measurement)

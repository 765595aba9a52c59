"""What the local launcher does with real worlds, good ones and bad ones."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from tests.fakes import order
from tests.world.launcher_contract import LauncherContract
from tests.world.local.launching import launcher
from tuner.world.launcher import TraceOrder
from tuner.world.local import live_world
from tuner.world.local.launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement

__all__ = ["launcher"]

pytestmark = pytest.mark.world

TROUBLES = Path(__file__).with_name("troubles.py")


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


class TestLocalLauncher(LauncherContract):
    @pytest.fixture
    def launcher(self, launcher: LocalLauncher) -> LocalLauncher:
        return launcher


@pytest.mark.parametrize("workload", ["Nested", "NestedByRRef"])
def test_a_served_call_that_calls_back_deadlocks_with_one_thread(
    launcher: LocalLauncher, tmp_path: Path, workload: str
) -> None:
    folder = tmp_path / "failures" / "nested"
    found = failure(run(launcher, workload, threads=1, folder=folder, deadline_s=120.0))
    assert found.failure == "deadlocked"
    assert "worker1 deadlocked: its only worker thread waits" in found.message
    assert "give it more num_worker_threads" in found.message
    assert found.world_s < 60  # proven, not waited out
    stacks = (folder / "worker1.stacks").read_text()
    assert "in call_back" in stacks
    document = orjson.loads((folder / "failure.json").read_bytes())
    assert document["config"] == {"*": {"num_worker_threads": 1}}
    assert document["failure"] == "deadlocked"


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


def test_a_rank_that_dies_is_the_root_cause(
    launcher: LocalLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel takes its time to end a process, and the other rank reports the loss at once.
    monkeypatch.setattr(live_world, "GRACE_S", 1.5)
    found = failure(run(launcher, "ServerAborts"))
    assert found.failure == "crashed"
    assert found.message.startswith("worker1 failed first (signal 6, SIGABRT")


def test_a_rank_that_exits_is_a_crash(launcher: LocalLauncher) -> None:
    found = failure(run(launcher, "Exits"))
    assert (found.failure, found.message) == (
        "crashed",
        "worker0 failed first (exit code 3, in step)",
    )


def test_a_world_past_its_deadline_is_ended(launcher: LocalLauncher) -> None:
    found = past_deadline(launcher, "Dozes", "worker0 in step")
    assert "s (0 steps done; worker0 in step" in found.message


def test_a_call_past_its_rpc_timeout_is_a_timeout(launcher: LocalLauncher) -> None:
    found = failure(run(launcher, "Dozes", rpc_timeout=1))
    assert found.failure == "timed-out"
    assert "RPC ran for more than set timeout (1000 ms)" in found.message


def test_a_wrong_answer_is_a_failure(launcher: LocalLauncher) -> None:
    found = failure(run(launcher, "WrongAnswer"))
    assert found.failure == "wrong-answer"
    assert found.message == "worker0 failed first, in check: ValueError: 2 is not 3"
    assert "Traceback" in found.detail


def test_a_bare_assert_is_reported_by_its_line(launcher: LocalLauncher) -> None:
    found = failure(run(launcher, "BareAssert"))
    assert found.message.startswith("worker0 failed first, in check: AssertionError: troubles.py:")
    assert found.message.endswith(": assert self.steps < 0")


def test_a_setup_that_raises_keeps_what_was_printed(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    folder = tmp_path / "failures" / "setup"
    found = failure(run(launcher, "SetupFails", folder=folder))
    assert found.failure == "crashed"
    assert "worker1 failed first, in setup: KeyError: 'nothing here'" in found.message
    assert found.message.endswith("see failures/setup")
    assert (folder / "worker1.stdout").read_text() == "about to fail\n"


def test_a_teardown_that_hangs_is_ended(launcher: LocalLauncher) -> None:
    past_deadline(launcher, "TeardownHangs", "worker1 in teardown")


def test_a_child_of_a_rank_does_not_outlive_the_world(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    outcome = run(launcher, "LeavesAChild", options={"pid_file": str(pid_file)})
    assert isinstance(outcome, Measurement)
    child = int(pid_file.read_text())
    assert _gone(child, within_s=60)


def test_cpu_time_is_that_of_the_timed_steps(launcher: LocalLauncher) -> None:
    def overheads() -> Iterator[float]:
        for _ in range(4):
            outcome = run(launcher, "Burns", transports=["uv"])
            assert isinstance(outcome, Measurement)
            burner, sleeper = outcome.ranks
            assert sleeper.cpu_s < 0.3 * burner.cpu_s
            yield burner.cpu_s / (0.02 * len(outcome.step_s)) - 1

    # A kernel may count a CPU that the host took away as used: in one world, not in all.
    assert any(-0.01 < overhead < 0.1 for overhead in overheads())


def test_setup_steps_and_check_share_one_object(launcher: LocalLauncher) -> None:
    assert isinstance(run(launcher, "Remembers"), Measurement)


def test_nothing_listens_beyond_loopback(launcher: LocalLauncher) -> None:
    found = failure(run(launcher, "Listens", transports=["uv"]))
    assert found.message.endswith("listening on ['127.0.0.1']")


def test_no_process_outlives_a_killed_search(tmp_path: Path) -> None:
    script = tmp_path / "search.py"
    # No main guard: a rank must not run the person's script again.
    script.write_text(
        "from tests.fakes import order\n"
        "from tuner.world.local.launcher import LocalLauncher\n"
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
    assert all(_gone(process.pid, within_s=60) for process in ranks)


def _gone(pid: int, within_s: float) -> bool:
    """Whether the process ends in time; a zombie has ended too."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)  # polling another process; nothing here can notify
    return False


def _wait_for_descendants(pid: int, count: int) -> list[psutil.Process]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = psutil.Process(pid).children(recursive=True)
        if len(found) >= count:
            return found
        time.sleep(0.05)  # polling another process; nothing here can notify
    raise AssertionError("the world did not start")

"""What every launcher must do; subclassed per launcher."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from testing import troubles
from testing.fakes import order
from testing.known import known
from testing.outcomes import failed, measured
from tuner.errors import UsageError
from tuner.plan.workload_spec import WorkloadSpec
from tuner.trace.files.reader import read_trace
from tuner.world import live_world
from tuner.world.launcher import TraceOrder, WorkloadLauncher
from tuner.world.measurement import Failure, Measurement

TROUBLES = Path(troubles.__file__)


def awaited(condition: Callable[[], bool], within_s: float = 120.0) -> bool:
    """Whether something holds in time, of other processes: nothing here can notify."""
    until = time.monotonic() + within_s
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def ends(process: int | psutil.Process, within_s: float) -> bool:
    """Whether the process ends in time; a zombie has ended too."""

    def has_ended() -> bool:
        # Another process may have got its number by now.
        with suppress(psutil.NoSuchProcess):
            found = psutil.Process(process) if isinstance(process, int) else process
            return not found.is_running() or found.status() == psutil.STATUS_ZOMBIE
        return True

    return awaited(has_ended, within_s)


def family_of(pid: int) -> list[psutil.Process]:
    """A process's descendants."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def several(find: Callable[[], list[psutil.Process]], count: int) -> list[psutil.Process]:
    """What is found, once it is so much."""
    assert awaited(lambda: len(find()) >= count), f"no {count} processes"
    return find()


@contextmanager
def dozing_search(module: str, launcher: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A script in which a world of the launcher runs, and which is killed at the end."""
    script = folder / "search.py"
    # No main guard: a rank must not run the person's script again.
    script.write_text(
        "from testing.fakes import order\n"
        f"from {module} import {launcher}\n"
        "print('started', flush=True)\n"
        f"with {launcher}() as launcher:\n"
        f"    launcher.run(order(launcher.describe({str(TROUBLES) + ':Dozes'!r}, {{}})))\n"
    )
    search = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield search
    finally:
        search.kill()
        assert search.communicate()[0] == "started\n"


@contextmanager
def impatient(launcher: Any, *, grace_s: float = live_world.GRACE_S) -> Iterator[Any]:
    """The launcher, which probes worlds early: those of tests last a fraction of a second. For so
    long it waits for the first cause of a failure to be heard of."""
    with pytest.MonkeyPatch.context() as patch, launcher as running:
        patch.setattr(live_world, "PROBE_AFTER_S", 0.5)
        patch.setattr(live_world, "PROBE_EVERY_S", 0.2)
        patch.setattr(live_world, "GRACE_S", grace_s)
        yield running


def run(
    launcher: WorkloadLauncher, workload: str, *, options: dict[str, object] | None = None,
    deadline_s: float = 120.0, folder: Path | None = None, **knobs: Any,
) -> Measurement | Failure:  # fmt: skip
    """What comes of a world of one of the `troubles`."""
    spec = launcher.describe(f"{TROUBLES}:{workload}", options or {})
    return launcher.run(order(spec, deadline_s=deadline_s, failure_folder=folder, **knobs))


def fails(launcher: WorkloadLauncher, workload: str, **how: Any) -> Failure:
    return failed(run(launcher, workload, **how))


class LauncherContract:
    """Subclasses give the fixture `launcher`, whose worlds fail with the transport `ibv`."""

    @pytest.fixture
    def spec(self, launcher: WorkloadLauncher) -> WorkloadSpec:
        return launcher.describe("udf", {"calls": "2"})

    def test_a_workload_is_described_or_its_mistakes_are(
        self, launcher: WorkloadLauncher, spec: WorkloadSpec
    ) -> None:
        assert {**spec.options, "calls": 2, "size": 100, "rounds": 10} == spec.options
        assert spec.roles == ("caller", "server")
        assert [rank.name for rank in spec.ranks] == ["worker0", "worker1"]
        with pytest.raises(UsageError, match=r"unknown workload 'udff'.*Known: .*udf"):
            launcher.describe("udff", {})
        told = "unknown option 'colour'.*num_worker_threads is a knob: --space tunes it"
        with pytest.raises(UsageError, match=f"(?s){told}"):
            launcher.describe("udf", {"colour": "red", "num_worker_thread": 4})

    def test_a_world_gives_the_steps_ordered_and_what_each_rank_used(
        self, launcher: WorkloadLauncher, spec: WorkloadSpec
    ) -> None:
        outcome = measured(launcher.run(order(spec, steps=20)))
        assert len(outcome.step_s) == 20
        assert all(step_s > 0 for step_s in outcome.step_s)
        assert outcome.world_s > outcome.wall_s >= sum(outcome.step_s) * 0.999
        assert [rank.name for rank in outcome.ranks] == ["worker0", "worker1"]
        for rank in outcome.ranks:
            assert known(rank.cpu_s) > 0
            assert known(rank.peak_rss_mb) > 1
            assert rank.threads >= 2
        machine = known(outcome.machine)
        assert machine.seconds >= outcome.wall_s
        # The world's own CPU time is not that of others.
        assert (
            known(machine.others_cpus)
            <= machine.cpus - known(outcome.cpu_s) / machine.seconds + 0.1
        )

    @pytest.mark.parametrize("workload", ["Nested", "NestedByRRef"])
    def test_a_served_call_that_calls_back_deadlocks_with_one_thread(
        self, launcher: WorkloadLauncher, tmp_path: Path, workload: str
    ) -> None:
        found = fails(launcher, workload, threads=1, folder=tmp_path)
        assert found.failure == "deadlocked"
        assert "worker1 deadlocked: its only worker thread waits" in found.message
        assert found.world_s < 60  # proven, not waited out
        assert "in call_back" in (tmp_path / "worker1.stacks").read_text()
        document = msgspec.json.decode((tmp_path / "failure.json").read_bytes())
        assert document["config"] == {"*": {"num_worker_threads": 1}}
        assert document["failure"] == "deadlocked"

    @pytest.mark.parametrize(
        ("workload", "knobs", "kind", "message"),
        [
            ("Exits", {}, "crashed", r"worker0 failed first \(exit code 3, in step\); see"),
            ("ServerAborts", {}, "crashed", r"worker1 failed first \(signal 6, SIGABRT"),
            # It holds for what init_rpc calls, too: a busy machine needs more than a second for it.
            ("Dozes", {"rpc_timeout": 5}, "timed-out", r".*ran for more than set timeout \(5000"),
            ("WrongAnswer", {}, "wrong-answer", "worker0 failed first, in check: ValueError: 2"),
            ("SetupFails", {}, "crashed", "worker1 failed first, in setup: KeyError: 'nothing her"),
            ("Listens", {"transports": ["uv"]}, "wrong-answer", r".*on \['127.0.0.1'\]; see"),
            ("Pair", {"transports": ["ibv"]}, "init-failed", r"worker\d failed first, in init_rpc"),
            ("SetsItsOwn", {"switch_interval": 0.001}, "init-failed",
             r".*the workload set its own switch interval to 20ms after the tool: "),
            ("ServedRaises", {}, "crashed",
             r"worker0 .*, in step: ValueError: bad row 7 \(in a call that worker1 served\); see"),
            ("BareAssert", {}, "wrong-answer",
             r"worker0 .*, in check: AssertionError: troubles.py:\d+: assert world.rank < 0; see"),
        ],
    )  # fmt: skip
    def test_what_went_wrong_is_told_and_kept(
        self, launcher: WorkloadLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        workload: str, knobs: Any, kind: str, message: str,
    ) -> None:  # fmt: skip
        if workload == "ServerAborts":
            # The kernel takes its time to end a process, and the other rank reports it at once.
            monkeypatch.setattr(live_world, "GRACE_S", 1.5)
        found = fails(launcher, workload, folder=tmp_path / "failures" / "kept", **knobs)
        assert found.failure == kind
        assert re.match(message, found.message)
        assert found.message.endswith("; see failures/kept")
        assert ("Traceback" in found.detail) == (workload not in ("Exits", "ServerAborts"))
        if workload in ("WrongAnswer", "SetupFails"):
            printed = tmp_path / "failures" / "kept" / f"{found.rank}.stdout"
            assert printed.read_text() == "about to fail\n"

    def test_cpu_time_is_that_of_the_timed_steps(self, launcher: WorkloadLauncher) -> None:
        def overheads() -> Iterator[float]:
            for _ in range(4):
                outcome = measured(run(launcher, "Burns", transports=["uv"]))
                burnt_s, slept_s = (known(rank.cpu_s) for rank in outcome.ranks)
                assert slept_s < 0.3 * burnt_s
                yield burnt_s / (0.02 * len(outcome.step_s)) - 1

        # A kernel may count a CPU that the host took away as used: in one world, not in all.
        assert any(-0.01 < overhead < 0.1 for overhead in overheads())

    def test_a_world_leaves_its_trace_where_it_was_ordered(
        self, launcher: WorkloadLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its workload goes to another folder as soon as it can."""
        monkeypatch.chdir(tmp_path)
        spec = launcher.describe(f"{TROUBLES}:Leaves", {"folder": str(tmp_path / "elsewhere")})
        path = Path("traces") / "leaves.json"
        trace = TraceOrder(path=path, operators=True)
        measured(launcher.run(replace(order(spec, steps=5), trace=trace)))
        assert len(read_trace(path).calls) == 5

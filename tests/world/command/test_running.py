"""Programs that nobody edited, run with a configuration: each rank gets it, and nothing more."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from testing.known import known
from testing.programs import PROGRAMS, PYTHON, free_port
from tests.marks import needs_two_cpus
from tests.recommended.documents import document
from tests.world.command.reported import BEGAN_NS, NAMES, PIDS, report_of, until
from tuner import run
from tuner.cpus import named, share_of_rank
from tuner.machine import this_machine
from tuner.plan.config import Config
from tuner.world.command.running import RunEnd, run_program

ROOT = Path(__file__).parents[3]
Event = dict[str, Any]


@pytest.mark.world
@pytest.mark.thorough
def test_each_role_gets_its_own(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    config = Config.from_json({
        "*": {"num_worker_threads": 4, "transports": ["uv"]}, "agent": {"num_worker_threads": 2},
    })  # fmt: skip
    began_s = time.monotonic()
    end = run_program([*PYTHON, str(PROGRAMS / "spawn_env.py"), "3", "25"], config)
    took_s = time.monotonic() - began_s
    out, err = capfd.readouterr()
    assert end.exit_code == 0, err
    # Torch writes its own lines in pieces, and ours, in one, may come between two of them.
    assert dict(re.findall(r"rpc-tuner: (\S+) has (.*)$", err, re.MULTILINE)) == {
        "agent": "num_worker_threads=2 transports=uv",
        "observer1": "num_worker_threads=4 transports=uv",
        "observer2": "num_worker_threads=4 transports=uv",
    }
    calls = int(out.partition("calls: ")[2].split()[0])
    assert [rank.calls for rank in end.report.ranks] == [calls, 0, 0]
    assert end.notes == []
    # 25 steps of 16 calls of 10 ms on two servers of 4 threads each: 20 ms a step at least. A rank
    # that was stopped may say late that it is ready.
    assert 0.25 <= known(end.report.rpc_active_s) < took_s


def test_a_sitecustomize_of_the_person_is_imported_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.path.append('theirs')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    look = "import sys; print(sys.path[-1], [p for p in sys.path if p.endswith('hook')])"
    end = run_program([*PYTHON, "-c", look], Config.of({}))
    assert capfd.readouterr().out == "theirs []\n"
    assert end.report.processes == 1


def test_the_exit_code_is_the_programs() -> None:
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    for code, exit_code in (("import sys; sys.exit(7)", 7), (killed, 128 + signal.SIGKILL)):
        assert run_program([*PYTHON, "-c", code], Config.of({})).exit_code == exit_code


@pytest.mark.thorough
def test_a_signal_is_passed_on() -> None:
    code = "import time; print('ready', flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-m", "tuner.run", "--config", "rpc_timeout=9", "--", *PYTHON, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "no process of the program called init_rpc" in err


@pytest.mark.world
@pytest.mark.thorough
@needs_two_cpus
def test_process_knobs_are_set_and_said_in_the_line_of_each_rank(
    capfd: pytest.CaptureFixture[str],
) -> None:
    knobs = ["--config", "cpu_binding=equal", "--config", "switch_interval=1ms"]
    program = [*PYTHON, str(PROGRAMS / "bound.py"), free_port(), "plain"]
    assert run.main([*knobs, "--", *program]) == 0
    out, err = capfd.readouterr()
    for index in (0, 1):
        share = share_of_rank(index, 2)
        assert (
            f"rpc-tuner: worker{index} has num_worker_threads=16 cpu_binding=equal "
            f"(CPUs {named(share)}) switch_interval=1ms\n"
        ) in err
        assert f"worker{index}: [{share}] 0.001\n" in out


@pytest.mark.parametrize("knobs", [{"cpu_binding": "equal"}, {"num_worker_threads": 6}])
def test_a_recommendation_that_binds_warns_on_another_machine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], knobs: dict[str, object]
) -> None:
    measured = {**document(), "config": {"*": knobs}}
    cpus = this_machine()["cpu_count"]
    measured["environment"] |= {**this_machine(), "cpu_count": cpus + 4}
    path = tmp_path / "recommended.json"
    path.write_text(json.dumps(measured))
    assert run.main([str(path), "--", "true"]) == 0
    told = (
        f"rpc-tuner: {path} binds ranks to CPUs of their own, and was measured elsewhere (there, "
        f"here): logical CPUs: {cpus + 4}, {cpus}\n"
    )
    assert (told in capfd.readouterr().err) == ("cpu_binding" in knobs)


FAILED = {"kind": "init-failed", "pid": PIDS[0], "time_ns": BEGAN_NS + 10**9, "name": NAMES[0],
          "rank": 0, "error": "Address already in use", "traceback": ""}  # fmt: skip


def of_three(rank: int, last: str) -> list[Event]:
    """A rank of a world of three that nothing is wrong with."""
    events = [event for event in until(rank, last) if event["kind"] != "hook-failed"]
    return [event | ({"world_size": 3} if "world_size" in event else {}) for event in events]


@pytest.mark.parametrize(
    ("processes", "told"),
    [
        # One that starts a rank each: others have started the rest.
        ([of_three(0, "ended")], []),
        (
            [of_three(0, "ended"), of_three(1, "ended")],
            ["this command knows nothing of rank 2: another command may have started it. If this "
             "one did, it runs without the configuration. The hook did not reach it then: it "],
        ),
        (
            [[*of_three(0, "rendezvous"), FAILED], of_three(1, "init_rpc")],
            ["agent failed first, in init_rpc: Address already in use"],
        ),
        (
            [of_three(0, "rendezvous"), of_three(1, "rendezvous")],
            ["ranks 0 and 1 wait in init_rpc for rank 2 at env://"],
        ),
        (
            [[*of_three(0, "ready"), {**of_three(0, "shutdown")[-1], "overridden": "its own"}]],
            ["agent: its own"],
        ),
    ],
)  # fmt: skip
def test_ranks_that_may_run_without_it(processes: list[list[Event]], told: list[str]) -> None:
    notes = RunEnd(0, report_of(*processes)).notes
    assert [note[: len(each)] for note, each in zip(notes, told, strict=True)] == told


def test_a_role_that_no_rank_has() -> None:
    end = RunEnd(0, report_of(until(0, "ended"), until(1, "ended")))
    config = {"observers": {"num_worker_threads": 2}, "agent": {"rpc_timeout": 20.0}}
    assert end.unused(Config.from_json(config)) == [
        "no rank has the role 'observers', so what is set for it was not used; did you mean "
        "observer?"
    ]

"""`python -m tuner.record`: what it prints and writes, and programs that do not end well."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from testing.fakes import fake_trace
from testing.programs import PYTHON, free_port
from testing.specs import threads
from tests.commands.running import environment
from tests.world.command.recorded import python
from tuner import record
from tuner.trace.files.reader import read_trace
from tuner.world.command.recording import RecordedEnd


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "calls.json"


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ([sys.executable, "-c", "import sys; sys.exit(7)"], 7, "with exit code 7 and never called"),
        (["true"], 2, "the hook reached none of its processes"),
    ],
)
def test_why_nothing_was_recorded_is_told(
    command: list[str], code: int, reason: str, out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert record.main(["--out", str(out), "--", *command]) == code
    err = capfd.readouterr().err
    assert re.search(r"nothing was recorded: the program ended after [\d.]+ s with exit code", err)
    assert reason in err
    assert not out.exists()


OTHER_AGENT = """
import os
import torch.distributed.rpc as rpc

os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="{port}")
same = rpc.backend_registry.BackendType.TENSORPIPE.value
rpc.backend_registry.register_backend(
    "THEIRS", same.construct_rpc_backend_options_handler, same.init_backend_handler
)
rpc.init_rpc("alone", backend=rpc.backend_registry.BackendType.THEIRS, rank=0, world_size=1)
rpc.shutdown()
"""


@pytest.mark.world
@pytest.mark.thorough
def test_another_agent_is_told(out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = [*PYTHON, "-c", OTHER_AGENT.format(port=free_port())]
    assert record.main(["--out", str(out), "--", *program]) == 2
    assert "alone uses the agent THEIRS: only TensorPipe's calls" in capfd.readouterr().err


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.parametrize("where", [[], ["beside"]])
def test_the_command_that_tries_a_suggested_knob(
    where: list[str], out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Calls to a learner that computes in Python wait for the GIL, on whichever of its threads."""
    program = python("learner_computes.py", "2", free_port(), *where)
    assert record.main(["-o", str(out), "--all", "--role", "actor=actor.*", "--", *program]) == 0
    printed = capfd.readouterr().out
    (counted,) = re.findall(r"calls: (\d+)", printed)
    assert len(read_trace(out).calls) == int(counted)
    assert "The GIL of learner is the limit:" in " ".join(printed.split())
    (command,) = re.findall("Try: (.*)", printed)
    search = ["rpc-tuner", "search", "--space", "switch_interval=5ms,1ms,0.2ms"]
    assert shlex.split(command) == [*search, "--role=actor=actor.*", "--", *program]


@pytest.mark.world
def test_a_program_is_shown_and_kept(out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = python("nested.py", free_port(), "4", "3")
    flags = ["--json", "--role", "cache=store", "-o", str(out)]
    flags += ["--config", "driver.num_worker_threads=9"]
    assert record.main([*flags, "--", *program]) == 0
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    assert "calls: 6" in printed.err
    assert document["call_count"] == len(read_trace(out).calls) == 6
    assert (document["program"], document["exit_code"]) == (program, 0)
    assert document["timeline"] == str(out.with_name("calls.timeline.png"))
    assert out.with_name("calls.timeline.png").stat().st_size > 1000
    assert document["ranks"][0]["num_worker_threads"] == 9
    driver, relay, cache = document["least_threads"]
    assert (driver["role"], driver["least"]) == ("driver", None)
    # The relay sleeps before it calls, and the trace does not tell that from a wait for others.
    assert (relay["role"], relay["least"], relay["at_least"]) == ("relay", None, 4)
    assert (cache["role"], cache["waiting"], cache["threads"]) == ("cache", 0, 4)
    slowest = document["slowest_call"]
    assert slowest["timeout_s"] == 20
    assert 0.05 <= slowest["took_s"] < 20


@pytest.mark.world
@pytest.mark.thorough
def test_several_commands_are_recorded_as_one_world(
    out: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    ranks = [python("by_rank.py", "--rank", rank, "--master-port", port) for rank in "01"]
    flags = ["--out", str(out), "--no-timeline", "--json", "--beside", shlex.join(ranks[1])]
    assert record.main([*flags, "--", *ranks[0]]) == 0
    printed = capfd.readouterr()
    document = json.loads(printed.out)
    assert [document["program"], *document["beside"]] == ranks
    assert "rpc-tuner: " not in printed.err
    trace = read_trace(out)
    assert [rank.name for rank in trace.ranks] == ["ps", "trainer1"]
    assert (len(trace.calls), trace.losses) == (20, ())


def printed_until_ended(out: Path, *flags: str, until: Callable[[str], bool]) -> tuple[int, str]:
    """Record what never ends, until a line is printed; the exit code, and what came after it."""
    command = [sys.executable, "-m", "tuner.record", "--no-timeline", "--out", str(out), *flags]
    with subprocess.Popen(
        [*command, "--", *python("never_ends.py")], env=environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that Ctrl-C reaches all of it
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while not until(process.stdout.readline()):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        printed = process.stdout.read()
    return process.returncode, printed


@pytest.mark.world
@pytest.mark.thorough
def test_a_program_that_never_ends_is_recorded_until_it_is_interrupted(out: Path) -> None:
    code, printed = printed_until_ended(out, "--all", until=lambda line: "calls: 200" in line)
    assert code == 128 + signal.SIGINT
    counted = [200, *map(int, re.findall(r"^calls: (\d+)$", printed, re.MULTILINE))][-1]
    # It tells of every hundredth call.
    assert counted <= len(read_trace(out).calls) <= counted + 100
    assert re.search(
        r"The call nearest to its time limit took .* of 60 s \(.*: rpc_sync#tick", printed
    )


@pytest.mark.world
@pytest.mark.thorough
def test_a_window_is_shown_while_the_program_goes_on(out: Path) -> None:
    seen: list[str] = []

    def goes_on(line: str) -> bool:
        seen.append(line)
        return line.startswith("calls: ") and any(each.startswith("Trace: ") for each in seen)

    printed_until_ended(out, "--start-after", "0.3s", "--for", "0.4s", until=goes_on)
    trace = read_trace(out)
    start_ns, end_ns = trace.window_ns
    assert 0.4e9 <= end_ns - start_ns < 5e9
    # The first calls connect, which takes most of the window on a busy machine.
    assert len(trace.calls) > 0
    assert trace.losses == ()


def test_a_failed_programs_trace_is_shown(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(
        command: list[str], order: object, show: Callable[[bytes, int], None], **_: Any
    ) -> Any:
        show(fake_trace(threads(2), step_s=0.002, steps=3), 3)
        report = SimpleNamespace(warned=(), notes=lambda *_: ["a note"])
        return RecordedEnd(exit_code=3, is_given_up=False, report=cast("Any", report), why_not="")

    monkeypatch.setattr("tuner.world.command.recording.record_program", fail)
    assert record.main(["--out", str(out), "--no-timeline", "--", "false"]) == 3
    printed, told = capsys.readouterr()
    assert printed.endswith(f"\nTrace: {out}, for ui.perfetto.dev\n")
    assert told == "rpc-tuner: a note\nrpc-tuner: the program ended with exit code 3\n"
    assert len(read_trace(out).calls) == 6
    # The disk is full by now.
    monkeypatch.setattr("tuner.files.written_atomically", Mock(side_effect=OSError(28, "No space")))
    assert record.main(["--out", str(out), "--no-timeline", "--", "false"]) == 2
    again, told = capsys.readouterr()
    assert again.splitlines() == printed.splitlines()[:-1]
    assert told.endswith(f"rpc-tuner: cannot write the trace {out}: No space\n")


def test_nothing_runs_if_its_trace_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran, new = tmp_path / "ran", tmp_path / "new" / "x.json"
    program = ["--", "touch", str(ran)]
    assert record.main(["--out", "/proc/x.json", "--json", *program]) == 2
    assert "rpc-tuner: cannot write the trace /proc/x.json: " in capsys.readouterr().err
    assert record.main(["--out", str(new), "--timeline", "/proc/x.png", *program]) == 2
    assert "rpc-tuner: cannot write the timeline /proc/x.png: " in capsys.readouterr().err
    assert not ran.exists()
    # Nor is the folder of the trace left behind.
    assert record.main(["--out", str(new), "--", "no-such-program"]) == 2
    assert not new.parent.exists()

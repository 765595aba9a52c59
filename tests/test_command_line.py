"""How commands are interrupted; their exit codes and JSON are tested with each of them."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from testing.golden_files import NATIVE
from tuner import command_line, search, show
from tuner.command_line import Interruptible, Interruption, stdout_console
from tuner.flags import NOBODY_READS


class SignalsWhenItGoes:
    """Has a signal arrive while Python runs a destructor, which can raise nothing."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


class FailsWhenItGoes:
    def __del__(self) -> None:
        raise ZeroDivisionError


def test_a_signal_that_python_drops_interrupts_at_the_next_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_type))
    interruption = Interruption()
    SignalsWhenItGoes()  # nothing is raised here, though a signal came
    FailsWhenItGoes()
    assert told == [ZeroDivisionError]
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


def test_tables_are_as_wide_as_columns_says_else_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where stdout, as here, is no terminal."""
    monkeypatch.setenv("COLUMNS", "123")
    assert stdout_console().width == 123
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((97, 20)))
    assert stdout_console().width == 97
    nowhere = Mock(side_effect=OSError(errno.ENOTTY, "no terminal"))
    monkeypatch.setattr(os, "get_terminal_size", nowhere)
    assert stdout_console().width == 80


def test_a_path_that_cannot_be_read_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert show.main(["0" * 5000]) == 2
    message = capsys.readouterr().err
    assert message.startswith("rpc-tuner: cannot read ")
    assert message.endswith(": File name too long\n")
    assert len(message) < 350

    path = "studies/theirs/study.db"
    refused = PermissionError(errno.EACCES, "Permission denied", path)
    monkeypatch.setattr(Path, "is_file", Mock(side_effect=refused))
    assert show.main(["theirs"]) == 2
    assert capsys.readouterr().err == f"rpc-tuner: cannot read {path}: Permission denied\n"


def test_a_burst_of_signals_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
    for number in numbers:
        # A shell ignores some of them for what it starts in the background.
        signal.signal(number, signal.SIG_DFL)
    interruption = Interruption()
    interruption.check()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        interruption.check()
    for number in numbers:
        os.kill(os.getpid(), number)
    monkeypatch.setattr(command_line, "BURST_S", 0.0)
    for number in numbers:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_nohup_is_respected() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Interruption()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_a_closed_pipe_ends_a_search_as_an_interruption_does() -> None:
    class Closed:
        def on_event(self, told: object) -> None:
            raise BrokenPipeError

        on_snapshot = on_event

    observer = Interruptible(Closed(), Interruption())
    for notify in (observer.on_event, observer.on_snapshot):
        with pytest.raises(KeyboardInterrupt):
            notify(cast(Any, None))


PRINTING = """
import sys, typer
from tuner.command_line import run
from tuner.present.terminal import Terminal
app = typer.Typer()
@app.command()
def main():
    sys.stdin.readline()
    for number in range({}): Terminal().print('line', number)
sys.exit(run(app, [], 'x'))
"""
HELP_OF_RUN = """
import sys
from tuner.run import main
sys.stdin.readline()
sys.exit(main(["--help"]))
"""


@pytest.mark.parametrize("code", [PRINTING.format(1), PRINTING.format(100_000), HELP_OF_RUN])
def test_a_reader_that_ends_first_makes_no_noise(code: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", code], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        error = process.communicate("go\n")[1]
    assert (process.returncode, error) == (NOBODY_READS, "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tuner.show", "--help"], "stdout"),
        (["tuner", "run", "--help"], "stdout"),
        (["tuner.analyze", str(NATIVE), "--no-timeline", "--all", "--row-limit", "0"], "stdout"),
        (["tuner.analyze", str(NATIVE), "--no-timeline", "--json"], "stdout"),
        (["tuner.show", "no-study"], "stderr"),
    ],
)
def test_a_full_disk_behind_the_output_is_one_line(arguments: list[str], told: str) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, told: full}
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(command, text=True, check=False, **streams)  # type: ignore[call-overload]
    assert done.returncode == 1
    if told == "stdout":
        assert done.stderr == "rpc-tuner: cannot print: No space left on device\n"


def test_a_loop_of_links_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert search.main(["--workload", "udf", "--out", str(loop)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "ymlink loop" in said or "levels of symbolic links" in said


def test_that_nobody_reads_why_a_command_failed_is_no_second_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "tuner.show", "no-study"]
    done = subprocess.run(command, stderr=writer, stdout=subprocess.DEVNULL, check=False)
    os.close(writer)
    assert done.returncode == NOBODY_READS

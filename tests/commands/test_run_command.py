"""What `tuner.run` refuses before it starts anything, and what all commands with a program say."""

import shlex
from pathlib import Path
from types import ModuleType

import pytest

from tuner import export, record, run, search
from tuner.world.command.order import ORDER_VARIABLE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "num_worker_threads=2"], "name a program behind --, such as: -- python"),
        (["--", "python"], "name a recommended.json, or give --config KNOB=VALUE"),
        (["r.json", "--config", "num_worker_threads=2", "--", "x"], "name a recommended.json, or"),
        (["--config", "threads=2", "--", "x"], "unknown knob 'threads'"),
        (["--config", "num_worker_threads", "--", "x"], "--config takes NAME=VALUE"),
        (["--config", "num_worker_threads=2", "--role", "ps=(", "--", "x"],
         "--role ps: '(' is not a regular expression"),
        (["--config", "num_worker_threads=2", "--", "/no/such/program"],
         "the program: '/no/such/program' is no file, and no command on the PATH"),
        (["gone.json", "--", "x"], "cannot read gone.json"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (run, ["--config", "num_worker_threads=2"]),
        (record, []),
        (search, ["--space", "num_worker_threads=2,4"]),
        (search, ["--dry-run"]),
        (search, None),
    ],
)
def test_what_another_command_of_ours_has_started_is_refused(
    command: ModuleType,
    flags: list[str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ORDER_VARIABLE, "{}")
    # A workload's ranks would obey the order, too, in place of each configuration.
    asked = ["--workload", "udf"] if flags is None else [*flags, "--", "true"]
    assert command.main(asked) == 2
    assert "start each of them with the program itself" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_a_script_that_is_not_executable_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ps.py").touch()
    message = "rpc-tuner: the program: 'ps.py' is not executable; did you mean python ps.py?\n"
    for command, flags in ((record, []), (run, ["--config", "num_worker_threads=2"])):
        assert command.main([*flags, "--", "ps.py"]) == 2
        assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("command", "flags", "program"),
    [
        (search, ["--budget", "60s"], ["python", "ps.py"]),
        (search, ["--study", "test"], ["python", "ps.py", "--world-size", "3"]),
        (record, ["--operators"], ["python3", "ps.py"]),
        (record, [], ["ps.py"]),
        (run, ["recommended.json"], ["python", "ps.py", "a b"]),
        (run, ["--config", "num_worker_threads=2"], ["python", "ps.py"]),
    ],
)
def test_forgotten_dashes_are_told(
    command: ModuleType,
    flags: list[str],
    program: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ps.py").touch()
    assert command.main([*flags, *program]) == 2
    hint = f"rpc-tuner: put -- before the command: -- {shlex.join(program)}\n"
    assert capsys.readouterr().err.endswith(hint)


def test_other_mistakes_have_nothing_to_do_with_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert search.main(["--bugdet", "60s", "--study", "test"]) == 2
    assert record.main(["--bugdet", "60s", "--", "python", "ps.py"]) == 2
    assert export.main(["first", "--", "python"]) == 2
    told = capsys.readouterr().err
    assert "put --" not in told
    assert "unexpected extra argument" in told


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        (search, "[OPTIONS] [-- COMMAND...]"),
        (record, "[OPTIONS] -- COMMAND..."),
        (run, "[OPTIONS] [RECOMMENDED] -- COMMAND..."),
    ],
)
def test_the_usage_shows_where_the_command_stands(
    command: ModuleType, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0].endswith(f" {usage}")
    assert command.main(["-h"]) == 0
    assert capsys.readouterr().out == told

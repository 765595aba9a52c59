"""What `tuner.run` refuses before it starts anything."""

import pytest

from tuner import export, run


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
         "cannot start '/no/such/program': No such file or directory"),
        (["gone.json", "--", "x"], "cannot read gone.json"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_other_commands_take_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main(["first", "--", "python"]) == 2
    assert "unexpected extra argument" in capsys.readouterr().err

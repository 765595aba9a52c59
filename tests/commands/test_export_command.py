"""The export command, from its flags to programs that start RPC with what it wrote."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from testing.programs import free_port
from testing.results import study_result
from testing.specs import threads
from tests.commands.running import environment
from tuner import export
from tuner.recommended.model import read_recommendation


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mock:
    """What looks for studies, and finds every one; none is kept here."""
    monkeypatch.chdir(tmp_path)
    found = Mock(return_value=study_result())
    monkeypatch.setattr("tuner.study.stored.find_study", found)
    monkeypatch.setattr("tuner.study.folder.known_folder", Mock())
    return found


def test_the_recommended_or_another_trial_is_printed_or_written(
    find: Mock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export.main(["udf"]) == 0
    assert json.loads(capsys.readouterr().out)["config"] == {"*": {"num_worker_threads": 4}}
    flags = ["--storage", "sqlite:///x.db", "--out", "here"]
    assert export.main(["udf", *flags, "--format", "toml", "--trial", "2"]) == 0
    document = tomllib.loads(capsys.readouterr().out)
    assert document["config"] == {"*": {"num_worker_threads": 8}}
    assert "verdict" not in document
    assert find.call_args_list == [
        call("udf", storage=None, out=None),
        call("udf", storage="sqlite:///x.db", out=Path("here")),
    ]
    path = tmp_path / "new" / "rpc.json"
    assert export.main(["udf", "--output", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert read_recommendation(path).config == threads(4)
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.usefixtures("find")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["udf", "--output", "/dev/null/x.json"], "cannot write /dev/null/x.json: "),
        (["udf", "--format", "yaml"], "--format must be json, toml or python, got 'yaml'"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export.main(arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"rpc-tuner: {message}")
    assert (out, err.count("\n")) == ("", 1)


# Runs an export to Python, which is a program by itself.
RUN = """
import runpy, sys

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
assert not {name.partition(".")[0] for name in sys.modules} & {"tuner", "workloads"}
"""


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.usefixtures("find")
def test_agents_have_as_many_threads_as_the_module_says(tmp_path: Path) -> None:
    module = tmp_path / "rpc.py"
    flags = ["--format", "python", "--trial", "2", "--output", str(module)]
    assert export.main(["udf", *flags]) == 0
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(module)], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment(**address, RANK=str(rank)),
        )
        for rank in (0, 1)
    ]  # fmt: skip
    for rank, process in enumerate(running):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        assert out == f"worker{rank}: num_worker_threads=8\n"

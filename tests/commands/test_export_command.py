"""The export command, from its flags to its exit code; without a study."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.plan.specs import threads
from tests.present.results import nothing_ran, study_plan, study_result
from tuner import export
from tuner.recommended.model import read_recommendation
from tuner.study.answer import StudyAnswer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Every study that was looked for; all are found."""
    found: list[tuple[object, ...]] = []

    def find(reference: str, *, storage: str | None, out: Path | None) -> StudyAnswer:
        found.append((reference, storage, out))
        return study_result(study_plan())

    monkeypatch.setattr("tuner.study.finding.find_study", find)
    return found


def test_json_is_the_default_format(
    asked: list[tuple[object, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert export.main(["udf"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["config"] == {"*": {"num_worker_threads": 4}}
    assert printed.err == ""
    assert asked == [("udf", None, None)]


def test_the_study_is_found_where_the_flags_say(asked: list[tuple[object, ...]]) -> None:
    assert export.main(["udf", "--storage", "sqlite:///x.db", "--out", "here"]) == 0
    assert asked == [("udf", "sqlite:///x.db", Path("here"))]


@pytest.mark.usefixtures("asked")
def test_another_trial_in_toml(capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main(["udf", "--format", "toml", "--trial", "2"]) == 0
    document = tomllib.loads(capsys.readouterr().out)
    assert document["config"] == {"*": {"num_worker_threads": 8}}
    assert "verdict" not in document


@pytest.mark.usefixtures("asked")
def test_python_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main(["udf", "--format", "python"]) == 0
    compile(capsys.readouterr().out, "rpc_config.py", "exec")


@pytest.mark.usefixtures("asked")
def test_a_file_is_written_whole_and_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "rpc.json"
    assert export.main(["udf", "--output", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert read_recommendation(path).config == threads(4)
    assert [each.name for each in path.parent.iterdir()] == ["rpc.json"]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trial", "4"], "trial 4 (num_worker_threads=32) cannot run: crashed: server failed"),
        (["--trial", "9"], "the study udf has no trial 9; its trials are 0 to 4"),
        (["--output", "/dev/null/x.json"], "cannot write /dev/null/x.json: "),
        (
            ["--format", "python", "--output", "recommended.json"],
            "--output recommended.json is a file of another format than python",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export.main(["udf", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"rpc-tuner: {message}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_study_that_recommends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = nothing_ran(study_plan())
    monkeypatch.setattr("tuner.study.finding.find_study", lambda *_, **__: nothing)
    assert export.main(["udf"]) == 2
    assert "recommends nothing" in capsys.readouterr().err


def test_a_format_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "tuner.study.finding.find_study", lambda *_, **__: study_result(study_plan())
    )
    assert export.main(["udf", "--format", "yaml"]) == 2
    assert capsys.readouterr().err == (
        "rpc-tuner: the format must be json, toml or python, got 'yaml'\n"
    )


def test_a_study_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert export.main(["udf"]) == 2
    assert "there is no study 'udf'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["udf", "--trial", "-1"]])
def test_bad_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main(arguments) == 2
    assert "Usage: python -m tuner.export" in capsys.readouterr().err


def test_help_imports_none_of_the_slow_packages() -> None:
    script = (
        "import sys, tuner.export\n"
        "assert tuner.export.main(['--help']) == 0\n"
        "slow = {'torch', 'optuna', 'matplotlib', 'pandas', 'scipy', 'numpy'}\n"
        "print('SLOW', sorted(slow & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.endswith("SLOW []\n")

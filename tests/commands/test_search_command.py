"""The search command, from its flags to its exit code; without a world."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tuner.__main__
from tests.present.results import nothing_ran, study_plan
from tuner import search
from tuner.decide.rules import VerdictKind
from tuner.plan.keys import DEFAULT_SPACE
from tuner.plan.knobs import KNOBS
from tuner.plan.objectives import OBJECTIVES
from tuner.present.study_result import StudyResult
from tuner.study.folder import StudyFolder

ROOT = Path(__file__).parents[2]


def imported_by(*arguments: str) -> set[str]:
    """The modules that a fresh process has imported after running the command."""
    script = (
        "import runpy, sys\n"
        f"sys.argv = ['tuner.search', *{list(arguments)!r}]\n"
        "try:\n"
        "    runpy.run_module('tuner.search', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "print('MODULES', *sorted(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.rpartition("MODULES")[2].split())


def test_help_imports_none_of_the_slow_packages() -> None:
    modules = imported_by("--help")
    assert "typer" in modules
    assert modules.isdisjoint({"torch", "optuna", "matplotlib", "pandas", "scipy", "numpy"})


def test_the_search_itself_never_imports_torch() -> None:
    script = (
        "import sys, tuner.api; assert 'torch' not in sys.modules; print('optuna' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "True\n"


def test_help_names_every_flag_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert search.main(["--help"]) == 0
    text = capsys.readouterr().out
    for flag in (
        "--workload", "--plan", "--set", "--space", "--baseline", "--objective", "--budget",
        "--max-blocks", "--epsilon", "--confidence", "--study", "--storage", "--out", "--resume",
        "--json",
    ):  # fmt: skip
        assert flag in text
    default = ", ".join(f"{knob}={values}" for knob, values in DEFAULT_SPACE.items())
    assert default in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "name a workload, a plan or a program: --workload udf, --plan FILE, -- python main.py",
        ),
        (["--workload", "udf", "--set", "size"], "--set takes NAME=VALUE, got 'size'"),
        (["--workload", "udf", "--space", "=1"], "--space takes NAME=VALUE, got '=1'"),
        (["--plan", "absent.toml"], "cannot read the plan absent.toml: No such file or directory"),
        (
            ["--workload", "udf", "--resume", "--overwrite"],
            "--resume and --overwrite exclude each other",
        ),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err == f"rpc-tuner: {message}\n"
    assert captured.out == ""


def test_bad_toml_says_the_line_and_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('workload = "udf"\nbudget = \n')
    assert search.main(["--plan", str(plan)]) == 2
    message = capsys.readouterr().err
    assert f"the plan {plan} is not valid TOML" in message
    assert "line 2" in message
    assert message.count("\n") == 1


def test_an_unknown_flag_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert search.main(["--frobnicate"]) == 2
    assert "No such option: --frobnicate" in capsys.readouterr().err
    assert search.main(["--buget=60s"]) == 2
    assert "No such option: --buget; did you mean --budget?\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "exit_code"),
    [
        (None, 3),  # nothing could run
        ("undecided", 0),  # the baseline failed, and the budget ended before a block
    ],
)
def test_a_search_that_recommends_nothing(
    verdict: VerdictKind | None, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = StudyResult(replace(nothing_ran(study_plan()), verdict=verdict))
    monkeypatch.setattr("tuner.api.tune", lambda *_, **__: result)
    assert search.main(["--workload", "udf", "--json"]) == exit_code


def test_rpc_tuner_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuner.__main__.main([]) == 0
    listing = capsys.readouterr().out
    assert all(command in listing for command in ("search", "analyze", "report", "export"))


def test_rpc_tuner_refuses_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuner.__main__.main(["serach"]) == 2
    assert "No such command 'serach'; did you mean search?" in capsys.readouterr().err
    assert tuner.__main__.main(["check", "main"]) == 2
    assert "'check'; it is rpc-tuner search --check STUDY" in capsys.readouterr().err


def test_rpc_tuner_passes_the_arguments_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert tuner.__main__.main(["search", "--set", "x"]) == 2
    assert "--set takes NAME=VALUE" in capsys.readouterr().err
    for flag in ("--help", "-h"):
        assert tuner.__main__.main(["search", flag]) == 0
        assert "Usage: rpc-tuner search" in capsys.readouterr().out
        assert tuner.__main__.main([flag]) == 0
        assert "Usage: rpc-tuner [OPTIONS] COMMAND" in capsys.readouterr().out


def test_the_help_names_knobs_and_objectives(capsys: pytest.CaptureFixture[str]) -> None:
    assert search.main(["--help"]) == 0
    words = "".join(capsys.readouterr().out.split())
    assert all(name in words for name in [*KNOBS, *OBJECTIVES])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workload", "udff"], "workload udff: unknown workload 'udff'; did you mean udf?"),
        (["--workload", "udf", "--set", "sizze=2"], "unknown option 'sizze'; did you mean size?"),
        (
            ["--set", "n=2", "--", "python", "x.py"],
            "options (n) are a workload's; a program has",
        ),
        (["--workload", "udf", "--space", "threads=1,2"], "space: unknown knob 'threads'"),
        (["--workload", "udf", "--objective", "stp_ms"], "did you mean step_ms?"),
        (["--workload", "udff", "--budget", "soon"], "the request has 2 problems"),
        (["--dry-run", "--workload", "udff"], "did you mean udf?"),
    ],
)
def test_what_is_mistyped_is_told_before_anything_large_is_imported(
    arguments: list[str], message: str
) -> None:
    script = (
        "import sys\n"
        "from tuner import search\n"
        "code = search.main(sys.argv[1:])\n"
        "print(code, sorted({'torch', 'optuna', 'pandas', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, cwd=ROOT
    )
    assert message in done.stderr
    assert done.stdout == "2 []\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("sho", ["show"]),
        ("run --conf", ["--config"]),
        ("search --workload ud", ["udf", "udf_sleep"]),
        ("search --sampler t", ["tpe"]),
        ("search --objective step_", ["step_ms", "step_p99_ms"]),
        ("search --launcher r", ["ray"]),
        ("search --check th", ["threads"]),
        ("search --resume --study th", ["threads"]),
        ("show ", ["threads", "udf"]),
        ("export udf --format p", ["python"]),
        ("init pr", ["program"]),
    ],
)
def test_the_shell_completes_commands_flags_and_names(
    words: str, found: list[str], tmp_path: Path
) -> None:
    for name in ("udf", "threads"):
        folder = StudyFolder(tmp_path / "studies" / name)
        folder.root.mkdir(parents=True)
        folder.database.touch()
    asked = {
        "_RPC_TUNER_COMPLETE": "complete_bash",
        "COMP_WORDS": f"rpc-tuner {words}",
        "COMP_CWORD": str(words.count(" ") + 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tuner"], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, **asked, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.split() == found, done.stderr

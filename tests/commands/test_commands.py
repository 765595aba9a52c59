"""All commands: what they import, list, complete and refuse, without a study or a world."""

import itertools
import math
import shlex
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

import tuner.__main__
from testing.cheap_studies import cheaply
from testing.results import nothing_ran, study_result
from tests.commands.running import environment, printed_by, searched
from tuner import record, run, search
from tuner.commands import SUMMARIES
from tuner.plan.keys import DEFAULT_SPACE, PLAN_KEYS
from tuner.plan.knobs import KNOBS
from tuner.plan.objectives import OBJECTIVES
from tuner.present.study_result import StudyResult
from tuner.study.folder import StudyFolder
from tuner.world.command.order import ORDER_VARIABLE
from workloads.unimported import mistakes_in_source

pytestmark = pytest.mark.usefixtures("here")


def test_help_imports_none_of_the_slow_packages() -> None:
    done = printed_by(
        "for name in sys.argv[1:]:\n    assert tuner.__main__.main([name, '--help']) == 0",
        *SUMMARIES,
    )
    assert done.stdout.count("Usage: rpc-tuner ") == len(SUMMARIES)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_search_itself_never_imports_torch() -> None:
    done = printed_by("import tuner.api")
    assert "optuna" in done.stdout
    assert "torch" not in done.stdout


MISTYPED = [
    (["--workload", "udf", "--set", "sizze=2", "--set", "calls=many"], "workload udf: 2 problems\n"
     "  - option calls must be int, got 'many'\n  - unknown option 'sizze'; did you mean size?"),
    (["--set", "n=2", "--", "python", "x.py"], "options (n) are a workload's; a program has"),
    (["--workload", "udff", "--budget", "soon"], "the request has 2 problems"),
    (["--dry-run", "--workload", "udff"], "did you mean udf?"),
    (["--workload", "no_such.module:Own"], "cannot import no_such.module: ModuleNotFoundError: No"),
    (["--workload", "own.py:Own"], "workload own.py:Own: there is no file own.py"),
    (["--workload", "mine.py:Own"], "mine.py has no class Own; it has Mine"),
    (["--workload", "mine.py:Mine", "--set", "call=2"], "unknown option 'call'; did you mean cal"),
    (["--workload", "mine:Mine", "--set", "calls=a"], "option calls must be int, got 'a'"),
    (["--workload", "broken.py:Own"], "cannot import broken.py: SyntaxError: "),
    (["--", "no-such-command"], "'no-such-command' is no file, and no command on the PATH"),
    (["--", "python", "-X", "dev", "-u", "own.py", "--rank"], "there is no file own.py"),
    (["--resume", "--study", "no-such"], "there is no study 'no-such'"),
    (["--check", "no-such"], "there is no study 'no-such'"),
    (["--workload", "udf", "--study", "faster"], "there is a study faster in studies/faster alr"),
]  # fmt: skip
NO_STUDY = [["show"], ["export"], ["report"], ["dashboard"]]
OWN = """
from tuner import Workload

class Mine(Workload):
    calls: int = 4
"""


def test_what_is_mistyped_is_told_before_anything_large_is_imported(here: Path) -> None:
    with cheaply():
        searched("faster")
    (here / "mine.py").write_text(OWN)
    (here / "broken.py").write_text("class Own(:")
    given = [["search", *arguments] for arguments, _ in MISTYPED]
    given += [[*command, "no-such"] for command in NO_STUDY]
    done = printed_by(
        f"for arguments in {given!r}:\n"
        "    assert tuner.__main__.main(arguments) == 2\n"
        "    print('---', file=sys.stderr)"
    )
    messages = [message for _, message in MISTYPED] + ["there is no study 'no-such'"] * 4
    for told, message in zip(done.stderr.split("---\n"), messages, strict=False):
        assert message in told
    assert done.stdout == "[]\n"


def test_what_a_source_does_not_tell_is_not_judged(here: Path) -> None:
    """A class may come from elsewhere, and of options the source may say too little."""
    for name, text in {
        "star": "from elsewhere import *",
        "late": "globals()['Own'] = 1",
        "derived": "class Own(Other): pass",
        "made": "if True:\n    from elsewhere import Mine as Own",
        "limited": "class Own(Workload):\n    calls: Annotated[int, Field(ge=1)] = 4",
        "computed": "class Own(Workload):\n    calls: int = len('four')",
    }.items():
        (here / f"{name}.py").write_text(text)
        assert mistakes_in_source(f"{name}.py:Own", {"other": "1"}) == []
    assert mistakes_in_source("torch.nowhere:Own", {}) == []
    assert mistakes_in_source("sys:Own", {}) == []


@pytest.mark.thorough
def test_what_is_shown_or_refused_takes_little_more_than_pandas(here: Path) -> None:
    """A second, where pandas takes two thirds of one; both are started as a person does."""
    with cheaply():
        searched("faster")

    def took_s(*arguments: str) -> float:
        best_s = math.inf
        for _ in range(3):
            started_s = time.monotonic()
            done = subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
            best_s = min(best_s, time.monotonic() - started_s)
        assert done.returncode == (2 if "search" in arguments else 0), done.stderr
        return best_s

    usual_s = took_s("-c", "import pandas")
    for command in (["show", "faster"], ["list"], ["export", "faster"]):
        assert took_s("-m", "tuner", *command) < 1.5 * usual_s
    for arguments, _ in MISTYPED[:4]:
        assert took_s("-m", "tuner", "search", *arguments) < 3 * usual_s


def test_the_help_of_the_search_names_knobs_objectives_and_the_default_space(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert search.main(["--help"]) == 0
    words = "".join(capsys.readouterr().out.split())
    default = ",".join(f"{knob}={values}" for knob, values in DEFAULT_SPACE.items())
    assert all(name in words for name in (*KNOBS, *OBJECTIVES, default))


def test_rpc_tuner_lists_its_commands_and_passes_arguments_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        assert tuner.__main__.main(arguments) == 0
        listing = capsys.readouterr().out
        assert listing.startswith("Usage: rpc-tuner [OPTIONS] COMMAND")
        assert all(f"\n  {command} " in listing for command in SUMMARIES)
    assert tuner.__main__.main(["search", "-h"]) == 0
    assert "Usage: rpc-tuner search" in capsys.readouterr().out
    for arguments in (["--version"], ["search", "--version"], ["run", "--version"]):
        assert tuner.__main__.main(arguments) == 0
        assert capsys.readouterr().out == f"rpc-tuner {tuner.__version__}\n"


COMPLETED = {
    "sho": ["show"],
    "run --conf": ["--config"],
    "search --workload ud": ["udf", "udf_sleep"],
    "search --sampler t": ["tpe"],
    "search --check th": ["threads"],
    "search --resume --study th": ["threads"],
    "show ": ["threads", "udf"],
    "export udf --format p": ["python"],
    "init pr": ["program"],
}


@pytest.mark.parametrize("words", COMPLETED)
def test_the_shell_completes_commands_flags_and_names(words: str, here: Path) -> None:
    for name in ("udf", "threads"):
        folder = StudyFolder(here / "studies" / name)
        folder.root.mkdir(parents=True)
        folder.database.touch()
    asked = {
        "_RPC_TUNER_COMPLETE": "complete_bash",
        "COMP_WORDS": f"rpc-tuner {words}",
        "COMP_CWORD": str(words.count(" ") + 1),
    }
    command = [sys.executable, "-m", "tuner"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(**asked))
    assert done.stdout.split() == COMPLETED[words], done.stderr


REFUSED = """
serach: Error: No such command 'serach'; did you mean search?
check main: Error: No such command 'check'; it is rpc-tuner search --check STUDY
help: Error: No such command 'help'; it is rpc-tuner --help
search: name a workload, a plan or a program: --workload udf, --plan FILE, -- python main.py
search --workload udf --space =1: --space takes NAME=VALUE, got '=1'
search --workload udf --resume --overwrite: --resume and --overwrite exclude each other
search --check udf --space num_worker_threads=1 --resume: study: leave out --space and --resume
search --check udf -- python main.py: study: leave out a program behind --
search udf --budget 60s: Error: Got unexpected extra argument(s) (udf); did you mean --workload udf?
search --buget=60s: Error: No such option: --buget; did you mean --budget?
search --study test python ps.py --size 3: put -- before the command: -- python ps.py --size 3
record --operators python3 ps.py: rpc-tuner: put -- before the command: -- python3 ps.py
record ps.py: put -- before the command: -- ps.py
export first -- python: Error: Got unexpected extra argument
run r.json python ps.py 'a b': put -- before the command: -- python ps.py 'a b'
run --config num_worker_threads=2 python ps.py: put -- before the command: -- python ps.py
record -- ps.py: the program: 'ps.py' is not executable; did you mean python ps.py?
record: name a program behind --, such as: -- python
record --beside "'x" -- true: --beside "'x": No closing quotation
record --beside " " -- true: --beside takes a command, got ' '
record --out . -- x: --out takes a file, and . is a folder
record --for soon -- x: --for: must be a duration such as 60s
record --timeline x.gif -- x: --timeline takes a file that ends in .png or .svg
run --config num_worker_threads=2: name a program behind --, such as: -- python
run -- python: name a recommended.json, or give --config KNOB=VALUE
run r.json --config num_worker_threads=2 -- x: name a recommended.json, or give
run --config num_worker_threads -- x: --config takes NAME=VALUE
run --config num_worker_threads=2 --role ps=( -- x: --role ps: '(' is not a regular expression
run gone.json -- x: cannot read gone.json
analyze absent.json: absent.json: there is no such file
analyze x.json --timeline x.pdf: --timeline takes a file that ends in .png or .svg, got x.pdf
analyze x.json --timeline x.svg --no-timeline: --timeline and --no-timeline exclude each other
export udf: there is no study 'udf'; the folder studies holds none. Give the name of a study
export udf --trial -1: Error: Invalid value for '--trial': Input should be greater than or equal
export udf --format python --output a.json: --output a.json is a file of another format than python
init worklod: there is no skeleton of 'worklod'; did you mean workload?
init workload mine: give the workload a FILE that ends in .py, not mine
init plan bad.toml: bad.toml is there already: give another FILE, or move it away
init plan /proc/none/my_plan.toml: cannot write /proc/none/my_plan.toml: No such file or directory
list: there is no folder studies
list here --storage sqlite:///x.db: name a folder or a --storage, not both
report one --output page.pdf: --output takes a file that ends in .html, got page.pdf
report one two --out x: --out goes with one study; several are named by their folders
report one one: a study is named twice; name each study once
dashboard one --port -1: Error: Invalid value for '--port': Input should be greater than or equal
dashboard --out x: --storage and --out say where one study is: name the study too
dashboard one --studies x: --studies shows all studies of a folder: give it no STUDY
dashboard --studies none: there are no studies to show in the folder none; rpc-tuner search
"""


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_bad_usage_is_one_sentence_and_exit_code_2(
    line: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "bad.toml").touch()
    (here / "ps.py").touch()
    words, message = line.split(": ", 1)
    assert tuner.__main__.main(shlex.split(words)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    told = printed.err.splitlines()[-1]
    assert message in told
    assert told.startswith(("rpc-tuner: ", "Error: "))
    assert {path.name for path in here.iterdir()} == {"bad.toml", "ps.py"}


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (run, ["--config", "num_worker_threads=2", "--", "true"]),
        (record, ["--", "true"]),
        (search, ["--space", "num_worker_threads=2,4", "--", "true"]),
        (search, ["--dry-run", "--", "true"]),
        # A workload's ranks would obey the order, too, in place of each configuration.
        (search, ["--workload", "udf"]),
    ],
)
def test_what_another_command_of_ours_has_started_is_refused(
    command: ModuleType, flags: list[str], here: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv(ORDER_VARIABLE, "{}")
    assert command.main(flags) == 2
    assert "start each of them with the program itself" in capsys.readouterr().err
    assert not [*here.iterdir()]


def test_the_usage_shows_where_the_command_stands(capsys: pytest.CaptureFixture[str]) -> None:
    for command, usage in (
        (search, "[OPTIONS] [-- COMMAND...]"),
        (record, "[OPTIONS] -- COMMAND..."),
        (run, "[OPTIONS] [RECOMMENDED] -- COMMAND..."),
    ):
        assert command.main(["--help"]) == command.main(["-h"]) == 0
        told = capsys.readouterr().out
        assert told.splitlines()[0].endswith(f" {usage}")
        assert told == 2 * told[: len(told) // 2]


def test_a_search_that_recommends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing could run; or the baseline failed, and the budget ended before a block.
    for verdict, code in ((None, 3), ("undecided", 0)):
        result = StudyResult.of(nothing_ran(verdict=verdict))
        monkeypatch.setattr("tuner.api.tune", lambda *_, found=result, **__: found)
        assert search.main(["--workload", "udf", "--json"]) == code


def test_quiet_prints_the_verdict_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = StudyResult.of(study_result())
    monkeypatch.setattr("tuner.api.tune", lambda *_, **__: result)
    assert search.main(["--workload", "udf", "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_help_of_the_search_is_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert search.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    groups = [line for line in lines if line and line[0] != " " and line.endswith(":")]
    assert groups == [
        "What to search:", "How to measure:", "Of a program:", "Where to run it:", "The study:",
        "Instead of a search:", "Options:",
    ]  # fmt: skip
    # A screen each, at most; every flag is in one of them.
    places = [*map(lines.index, groups), len(lines)]
    assert all(end - start <= 40 for start, end in itertools.pairwise(places))
    flags = [line.split()[0] for line in lines if line.startswith("  --")]
    assert len({*flags}) == len(flags) >= len(PLAN_KEYS) + 10


def test_a_terminal_of_ascii_gets_what_looks_alike(here: Path) -> None:
    with cheaply():
        searched("faster")
    for command in (["show", "faster"], ["show", "faster", "--all"], ["list"]):
        done = subprocess.run(
            [sys.executable, "-m", "tuner", *command], capture_output=True, check=True,
            env=environment(PYTHONIOENCODING="ascii", COLUMNS="80"),
        )  # fmt: skip
        assert b"\\u" not in done.stdout + done.stderr
        assert command == ["list"] or b"\n" + 20 * b"-" in done.stdout

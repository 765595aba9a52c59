from io import StringIO
from pathlib import Path

import pytest

from tests.plan.specs import threads
from tests.present.results import study_plan, study_result
from tests.present.screen import Screen
from tuner.plan.study_plan import StudyPlan
from tuner.present.how_to_use import init_rpc_lines
from tuner.present.summary import print_interruption, print_summary, print_verdict
from tuner.present.terminal import Terminal
from tuner.study.answer import StudyAnswer
from tuner.study.folder import StudyFolder


def summary(result: StudyAnswer, *, terminal: bool = False, width: int = 120) -> str:
    screen = Screen(terminal=terminal, width=width)
    print_summary(result, screen.console)
    return screen.text


@pytest.mark.parametrize("terminal", [False, True])
def test_the_lines_to_paste_are_never_cut(plan: StudyPlan, terminal: bool) -> None:
    text = summary(study_result(plan), terminal=terminal, width=40)
    for line in init_rpc_lines(threads(4), plan.subject).splitlines():
        assert f"    {line}\n" in text


def test_a_study_without_a_verdict_ends_with_the_command_that_goes_on(plan: StudyPlan) -> None:
    undecided = study_result(plan, best=threads(16), verdict="undecided")
    command = "python -m tuner.search --resume --study udf"
    shown = summary(undecided, width=40)
    assert f"To continue measuring:\n\n    {command} --budget 140s\n\n60 worlds, " in shown
    interrupted = study_result(plan, best=None, verdict=None, interrupted=True, challenger=None)
    assert f"\n    {command}\n" in summary(interrupted)
    assert "To continue" not in summary(study_result(plan))


def test_the_files_that_are_there_are_named(
    plan: StudyPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = StudyFolder(tmp_path / "udf")
    folder.root.mkdir()
    for path in (folder.database, folder.recommended):
        path.touch()
    answer = study_result(plan, folder.root)
    assert summary(answer).endswith("\nIn udf: recommended.json, study.db\n")
    for path in (folder.trials_csv, folder.report):
        path.touch()
    assert summary(answer).endswith(
        "\nReport: udf/report.html\nIn udf: recommended.json, trials.csv, study.db\n"
    )


def test_an_interruption_shows_the_table_as_far_as_it_goes(plan: StudyPlan) -> None:
    screen = Screen()
    print_interruption(study_result(plan, best=None, verdict=None), screen.console)
    assert "baseline" in screen.text
    assert "best" not in screen.text


@pytest.mark.parametrize(("environment", "has_colour"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_the_verdict_has_a_colour_unless_nobody_wants_one(
    environment: dict[str, str], has_colour: bool
) -> None:
    file = StringIO()
    terminal = Terminal(
        file=file, width=100, force_terminal=True, color_system="standard", _environ=environment
    )
    print_verdict(study_result(study_plan()), terminal)
    assert ("\x1b[1;32m" in file.getvalue()) == has_colour
    assert "\x1b[1" in file.getvalue()

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.plan.specs import threads
from tests.present.results import ROWS, nothing_ran, study_plan, study_result
from tests.present.screen import Screen
from tuner.command_line import print_json
from tuner.plan.study_plan import StudyPlan
from tuner.present.how_to_use import init_rpc_lines
from tuner.present.summary import print_interruption, print_summary, print_verdict
from tuner.present.terminal import Terminal
from tuner.present.wording import tied_sentence, verdict_sentence
from tuner.study.answer import StudyAnswer
from tuner.study.folder import StudyFolder


def summary(result: StudyAnswer, *, terminal: bool = False, width: int = 120) -> str:
    screen = Screen(terminal=terminal, width=width)
    print_summary(result, screen.console)
    return screen.text


def test_the_summary_has_all_parts_in_order(plan: StudyPlan) -> None:
    result = study_result(plan)
    text = summary(result)
    expected = [
        "worker_",
        "best",
        "num_worker_threads=32: crashed: server failed first",
        verdict_sentence(result),
        tied_sentence(result) or "",
        "What limits num_worker_threads=16.",
        "    import torch\n",
        "60 worlds, 20 of them in 12 blocks, in 42s, on 2 logical CPUs (Abacus 9000), "
        "torch 2.13.0.",
    ]
    places = [text.find(part) for part in expected]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("terminal", [False, True])
def test_the_lines_to_paste_are_never_cut(plan: StudyPlan, terminal: bool) -> None:
    text = summary(study_result(plan), terminal=terminal, width=40)
    for line in init_rpc_lines(threads(4), plan.subject).splitlines():
        assert f"    {line}\n" in text


def test_only_where_there_are_ties_a_line_names_them(plan: StudyPlan) -> None:
    line = "is within 3 % of num_worker_threads=4"
    assert line in summary(study_result(plan))
    assert line not in summary(study_result(plan, rows=(ROWS[0], *ROWS[2:])))


def test_when_nothing_ran_there_is_nothing_to_paste(plan: StudyPlan) -> None:
    text = summary(nothing_ran(plan))
    assert "No configuration of the search space could run the workload." in text
    assert text.count("server failed first") == 1  # one line for what failed alike
    assert "num_worker_threads=16, num_worker_threads=4: crashed: server failed first" in text
    assert "import torch" not in text


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


def json_document(result: StudyAnswer, captured: pytest.CaptureFixture[bytes]) -> dict[str, Any]:
    print_json(result.to_json())
    output = captured.readouterr().out
    assert output.endswith(b"}\n")
    document: dict[str, Any] = json.loads(output)
    return document


def test_the_json_document_is_that_of_the_contract(
    plan: StudyPlan, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    document = json_document(study_result(plan), capsysbinary)
    trials = document.pop("trials")
    assert document == {
        "format": 2,
        "study": "udf",
        "workload": "udf",
        "objective": "step_ms",
        "require": [],
        "unit": "ms",
        "baseline": {"*": {"num_worker_threads": 16}},
        "best": {"*": {"num_worker_threads": 4}},
        "verdict": "better",
        "speedup": {"estimate": 1.5, "ci_low": 1.4, "ci_high": 1.62},
        "challenger": {
            "config": {"*": {"num_worker_threads": 4}},
            "speedup": {"estimate": 1.5, "ci_low": 1.4, "ci_high": 1.62},
        },
        "why": {
            "baseline": "What limits num_worker_threads=16.",
            "best": "What limits num_worker_threads=4.",
        },
        "epsilon_achieved": 0.02,
        "not_excluded": [],
        "not_told_apart": [],
        "leader": None,
        "noise_floor": {"estimate": None, "ci_low": None, "ci_high": None},
        "least_gain": None,
        "more_s": None,
        "passed_over": [],
        "causes": [],
        "blocks": 12,
        "worlds": 60,
        "elapsed_s": 42.3,
        "front": None,
        "sampling": None,
        "machine": None,
    }
    assert [trial["outcome"] for trial in trials].count("completed") > 1


def test_the_json_document_has_an_entry_for_every_trial(
    plan: StudyPlan, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    trials = json_document(study_result(plan), capsysbinary)["trials"]
    assert trials[0] == {
        "config": {"*": {"num_worker_threads": 4}},
        "outcome": "completed",
        "failure": None,
        "samples": 5,
        "worlds_run": 6,
        "worlds_failed": 0,
        "unreliable": False,
        "value": 2.0,
        "ci_low": 1.9,
        "ci_high": 2.1,
        "speedup": None,
        "speedup_ci_low": None,
        "speedup_ci_high": None,
        "paired_blocks": 0,
        "cpu_cores": 1.75,
        "step_p99_ms": 2.75,
        "cpu_ms_per_step": 3.5,
        "peak_rss_mb": 201.4,
        "rpc_cpu_total_ms": 8.123,
        "parallelism_mean": 3.52,
        "parallelism_max": 4.0,
        "tracing_overhead": 1.24,
        "others_cpus": None,
        "disturbed_worlds": None,
        "diagnosis": "What limits num_worker_threads=4.",
        "tied_with_best": True,
        "broken_limits": [],
        "eliminated": None,
    }
    assert trials[-1]["outcome"] == "crashed"
    assert trials[-1]["failure"] == "server failed first"
    assert trials[-1]["value"] is None


def test_the_json_document_when_nothing_ran(
    plan: StudyPlan, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    document = json_document(nothing_ran(plan), capsysbinary)
    assert document["best"] is None
    assert document["verdict"] is None
    assert document["speedup"] == {"estimate": None, "ci_low": None, "ci_high": None}
    assert [trial["outcome"] for trial in document["trials"]] == ["crashed", "crashed"]


def test_an_interruption_shows_the_table_as_far_as_it_goes(plan: StudyPlan) -> None:
    screen = Screen()
    print_interruption(study_result(plan, best=None, verdict=None), screen.console)
    assert "baseline" in screen.text
    assert "best" not in screen.text


def test_an_interruption_before_the_first_block_shows_no_table() -> None:
    screen = Screen()
    print_interruption(study_result(study_plan(), blocks=0), screen.console)
    assert "baseline" not in screen.text


def test_an_interruption_says_where_the_report_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = StudyFolder(tmp_path / "here")
    folder.root.mkdir()
    folder.report.touch()
    screen = Screen()
    print_interruption(study_result(study_plan(), folder.root, blocks=0), screen.console)
    assert screen.text.startswith("Report: here/report.html\n")


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

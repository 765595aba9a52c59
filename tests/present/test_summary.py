import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len

from testing.results import ROWS, study_result
from testing.specs import threads
from tests.golden.media import RENDERED
from tests.present.screen import printed
from tuner.present.sentences import why_sentences
from tuner.present.summary import print_interruption, print_summary, print_verdict
from tuner.present.terminal import Terminal
from tuner.study.folder import StudyFolder


def height(text: str, width: int = 80) -> int:
    """How many lines a terminal of this width shows, those that it folds itself included."""
    return sum(max(1, math.ceil(cell_len(line) / width)) for line in text.splitlines())


@pytest.mark.parametrize("screen", sorted(RENDERED.glob("study-*/terminal-80.txt")))
def test_each_stored_answer_has_room_on_one_screen(screen: Path) -> None:
    assert height(screen.read_text()) <= 24


def test_the_why_is_the_limit_of_the_baseline_and_what_changed() -> None:
    said = "1 of 9 calls of f raised KeyError. server is the limit: for 90 % of it, it slept. More."
    rows = tuple(
        replace(row, diagnosis=said, metrics={"parallelism_mean": 2.0 if row.trial else 1.0})
        for row in ROWS
    )
    assert why_sentences(study_result(rows=rows)) == [
        "Why: in the baseline, server is the limit: for 90 % of it, it slept. "
        "num_worker_threads=4 changed the parallelism from 1.0 to 2.0."
    ]
    unclear = tuple(replace(row, diagnosis="No clear limit.") for row in ROWS)
    assert why_sentences(study_result(rows=unclear, verdict="tie")) == []
    failed = f"not done after 10 s ({'busy ' * 60}); see failures/a-trace"
    rows = tuple(replace(row, diagnosis=f"No trace: {failed}.", no_trace=failed) for row in ROWS)
    (why,) = why_sentences(study_result(rows=rows))
    assert why.startswith("Why: the baseline has no trace: not done after 10 s (busy ")
    assert why.endswith("/failures/a-trace.")
    assert len(why) < len(failed)


def test_commands_are_spelled_as_they_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    undecided = study_result(best=threads(16), verdict="undecided")
    monkeypatch.setenv("PATH", "")
    text = printed(print_summary, undecided)
    assert "python -m tuner.search --resume" in text
    assert "rpc-tuner" not in text


def test_the_files_that_are_there_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = StudyFolder(tmp_path / "udf")
    folder.root.mkdir()
    for path in (folder.database, folder.recommended, folder.trials_csv, folder.report):
        path.touch()
    answer = study_result(folder=folder.root)
    assert printed(print_summary, answer, whole=True).endswith(
        "\nReport: udf/report.html\nIn udf: recommended.json, trials.csv, study.db\n"
    )
    assert "\nPage: udf/report.html. More: rpc-tuner " in printed(print_summary, answer)


def test_an_interruption_shows_the_table_as_far_as_it_goes() -> None:
    text = printed(print_interruption, study_result(best=None, verdict=None))
    assert "baseline" in text
    assert "best" not in text


@pytest.mark.parametrize(("environment", "has_colour"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_the_verdict_has_a_colour_unless_nobody_wants_one(
    environment: dict[str, str], has_colour: bool
) -> None:
    how = {"width": 100, "force_terminal": True, "color_system": "standard"}
    terminal = Terminal(file=(file := StringIO()), _environ=environment, **how)
    print_verdict(study_result(), terminal)
    assert ("\x1b[1;32m" in file.getvalue()) == has_colour
    assert "\x1b[1" in file.getvalue()

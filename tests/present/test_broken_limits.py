"""What breaks a limit is told wherever configurations are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.plan.specs import threads
from tests.present.results import ROWS, measured, study_plan, study_result
from tests.present.screen import Screen
from tuner.decide.statistics import Interval
from tuner.errors import UsageError
from tuner.plan.objectives import BrokenLimit, Limit
from tuner.present.notes import trial_notes
from tuner.present.report.study_report import report_html
from tuner.present.summary import print_summary
from tuner.present.tables import write_trials_csv
from tuner.present.wording import verdict_sentence
from tuner.recommended.building import recommendation_of
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialRow

LIMIT = Limit.read("peak_rss_mb<=2000")
SAID = "peak_rss_mb 2400 > 2000, by 20 %"


def broken(trial: int, count: int, value_mb: float = 2400.0) -> TrialRow:
    row = measured(trial, threads(count), 3.0, outcome="infeasible")
    return replace(row, broken=(BrokenLimit(LIMIT, value_mb),))


def answer(**changes: Any) -> StudyAnswer:
    return study_result(study_plan(require=["peak_rss_mb<=2000"]), **changes)


def test_a_broken_limit_is_told_everywhere(tmp_path: Path) -> None:
    rows = (ROWS[0], ROWS[2], broken(2, 8))
    told = answer(rows=rows)
    screen = Screen(width=200)
    print_summary(told, screen.console)
    assert f"infeasible: {SAID}" in screen.text
    assert f"infeasible: {SAID}" in trial_notes(told)[2].replace("\\", "")
    assert f"infeasible: {SAID.replace('>', '&gt;')}" in report_html(told, [])
    write_trials_csv(told.trials, tmp_path / "trials.csv")
    column = pd.read_csv(tmp_path / "trials.csv")["broken_limits"]
    assert [*column.dropna()] == [SAID]


def test_a_baseline_that_breaks_a_limit_is_said_in_the_verdict() -> None:
    slower = Interval(0.5, 0.49, 0.52)
    told = answer(rows=(ROWS[0], broken(0, 16)), speedup=slower, challenger_speedup=slower)
    assert verdict_sentence(told) == (
        f"Use num_worker_threads=4: the baseline num_worker_threads=16 breaks a limit ({SAID}); "
        "num_worker_threads=4 is 50.0 % slower (51.0 % to 48.0 % slower, 95 % confidence) than it."
    )
    alone = answer(
        rows=(broken(0, 16), replace(ROWS[0], value=float("nan"))),
        best=None, verdict="undecided", speedup=None, challenger=None, challenger_speedup=None,
    )  # fmt: skip
    assert verdict_sentence(alone).startswith("Undecided: the baseline num_worker_threads=16")


def test_the_nearest_is_named_where_nothing_keeps_the_limits() -> None:
    told = answer(
        rows=(broken(1, 4, 2100.0), broken(0, 16)),
        best=None, verdict="undecided", speedup=None, challenger=None, challenger_speedup=None,
    )  # fmt: skip
    assert verdict_sentence(told) == (
        "No configuration keeps peak_rss_mb<=2000, so nothing is recommended; the nearest is "
        "num_worker_threads=4: peak_rss_mb 2100 > 2000, by 5 %."
    )
    with pytest.raises(UsageError, match="no configuration is known to keep its limits"):
        recommendation_of(told)

"""The figure of changes of the code, and the line of an answer that names the best of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.results import CALLERS, CHANGES, known, study_result
from tests.trace.forecast.test_changes import in_steps
from tuner.decide.statistics import Interval
from tuner.present.figures.changes import (
    Bars,
    changes_figures,
    draw_callers,
    write_changes_figure,
)
from tuner.present.figures.kit.canvas import styled_figure
from tuner.present.sentences import advice_of, sentences_of
from tuner.study.answer import StudyAnswer
from tuner.trace.forecast.by_callers import read_callers
from tuner.trace.forecast.forecasts import Model
from tuner.trace.forecast.ranked import rows_of

LINE = (
    "A change of the code may gain more: main.py:42 issue the 16 calls of look_up together "
    "(rpc_async): 6.50 times (5.60 to 7.40), a forecast."
)


def with_changes(**facts: Any) -> StudyAnswer:
    """A study whose trial 1 is recommended, with what its trace tells of changes."""
    return replace(study_result(), changes=CHANGES, **facts)


def test_each_change_is_a_bar_with_its_line() -> None:
    [figure] = changes_figures(with_changes())
    assert figure.alt == (
        "main.py:42 issue the 16 calls of look_up together (rpc_async): 6.50 (5.60 to 7.40); "
        "look_up twice as fast: 1.00 (0.85 to 1.18)"
    )
    assert "main.py:42 issue the 16 calls of look_up" in figure.svg


def test_without_changes_there_is_no_figure() -> None:
    assert changes_figures(study_result()) == []


def test_what_may_gain_nothing_is_pale() -> None:
    assert known(Bars.of([(each.text, each.times) for each in CHANGES])).rows.leading == (
        True, False,
    )  # fmt: skip


def test_the_changes_of_a_trace_are_drawn_to_a_file(tmp_path: Path) -> None:
    taken = in_steps(request_bytes=100)
    write_changes_figure(rows_of(taken, Model.of(taken))[0], [], tmp_path / "trace.changes.png")
    assert (tmp_path / "trace.changes.png").read_bytes().startswith(b"\x89PNG")
    write_changes_figure([], [], tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_the_curve_of_callers_says_where_a_server_is_full() -> None:
    with styled_figure((7.0, 3.0)) as figure:
        axes = figure.add_subplot()
        draw_callers(CALLERS, axes)
        (text,) = (each.get_text() for each in axes.texts)
        assert text == "full at 6: the lock of server"
        assert axes.lines[0].get_ydata() == pytest.approx([1, 1.9, 2, 2])
    [curve] = changes_figures(replace(study_result(), callers=CALLERS))
    assert "with 6 the lock of server can take no more" in curve.caption
    assert read_callers([each.to_json() for each in CALLERS]) == CALLERS


def test_a_change_that_gains_more_than_the_configuration_is_one_line() -> None:
    answer = with_changes()
    assert advice_of(answer).count(LINE) == sentences_of(answer).count(LINE) == 1
    (first, second) = answer.to_json()["changes"]
    assert (first["gains_more"], second["gains_more"]) == (True, False)
    baseline = with_changes(best_trial=None, verdict="undecided")
    assert LINE in advice_of(baseline)


@given(st.floats(1.0, 20.0), st.floats(0.0, 5.0))
def test_no_change_is_told_whose_gain_may_be_smaller(gain: float, width: float) -> None:
    answer = with_changes(speedup=Interval(gain, gain, gain + width))
    is_told = any("change of the code" in each for each in advice_of(answer))
    assert is_told == (CHANGES[0].times.low > gain + width)

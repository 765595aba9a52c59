from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from testing.results import (
    by_threads,
    failed,
    failed_later,
    in_blocks,
    known,
    measured,
    nothing_ran,
    study_result,
)
from testing.specs import for_all, threads
from tuner.decide.statistics import Interval
from tuner.present.figures import comparison_figures
from tuner.present.figures.comparison import SideBySide, draw_comparison, relative, side_by_side
from tuner.present.studies_compared import Comparison
from tuner.study.answer import StudyAnswer

REFERENCE = threads(16)


def study(step_ms: dict[int, float]) -> StudyAnswer:
    found = {n: {"value": ms, "ci": (ms - 0.1, ms + 0.2)} for n, ms in step_ms.items()}
    return in_blocks(by_threads(found))


@pytest.fixture
def two() -> list[tuple[str, StudyAnswer]]:
    return [
        ("here", study({4: 2.0, 16: 4.0, 1: 8.0})),
        ("there", study({8: 1.0, 4: 1.5, 16: 2.0})),
    ]


def test_ratios_come_from_the_blocks_that_measured_both(two: list[tuple[str, StudyAnswer]]) -> None:
    shown = known(side_by_side(Comparison(two, REFERENCE)))
    scaled = relative(shown, Comparison(two, REFERENCE))
    assert scaled.reference == REFERENCE
    for name, ratios in (("here", (0.5, 2, 1)), ("there", (2 / 1.5, 2, 1))):
        # The drift of the blocks is of no matter.
        found = [each.estimate for each in dict(scaled.series)[name].values()]
        assert found == pytest.approx(ratios, rel=0.03)
    assert [*dict(scaled.series)["there"]] == [threads(4), threads(8), REFERENCE]


def test_a_ratio_of_a_single_block_is_not_drawn(two: list[tuple[str, StudyAnswer]]) -> None:
    once = [(name, in_blocks(answer, blocks=1)) for name, answer in two]
    shown = known(side_by_side(Comparison(once, REFERENCE)))
    found = relative(shown, Comparison(once, REFERENCE)).series
    assert {config for _, points in found for config in points} == {REFERENCE}


def lines_of(shown: SideBySide) -> Figure:
    figure = Figure()
    draw_comparison(shown, figure.add_subplot())
    return figure


def test_threads_are_lines_over_a_scale(two: list[tuple[str, StudyAnswer]]) -> None:
    shown = known(side_by_side(Comparison(two, REFERENCE)))
    assert dict(shown.series)["here"][threads(4)] == Interval(2.0, 1.9, 2.2)
    (axes,) = lines_of(shown).axes
    assert axes.get_xscale() == "log"
    assert axes.get_ylabel() == "median step time (ms)"
    curves = [np.asarray(line.get_ydata()).tolist() for line in axes.lines]
    assert [8.0, 2.0, 4.0] in curves
    assert [1.5, 1.0, 2.0] in curves
    legend = known(axes.get_legend())
    assert [text.get_text() for text in legend.get_texts()] == ["here", "there"]


def test_other_knobs_are_rows_with_a_mark_for_each_study(grid: StudyAnswer) -> None:
    shown = known(side_by_side(Comparison([("a", grid), ("b", grid), ("c", grid)], grid.baseline)))
    assert shown.threads == {}
    assert len(shown.names) == 11
    (axes,) = lines_of(shown).axes
    first = [np.asarray(line.get_ydata()).tolist()[0] for line in axes.lines
             if np.asarray(line.get_xdata()).tolist()[0] == grid.rows[0].value]  # fmt: skip
    assert len(set(first)) == 3
    assert all(abs(at - shown.rows.at[0]) < shown.rows.bar_in / 2 for at in first)


def test_many_configs_are_cut_to_the_fastest_of_each_study_and_the_baseline(
    big: StudyAnswer,
) -> None:
    both = [("a", big), ("b", replace(big, rows=tuple(reversed(big.rows[:58]))))]
    comparison = Comparison(both, big.baseline)
    shown = known(side_by_side(comparison))
    assert len(shown.names) == 10
    assert shown.left_out == 48
    assert {big.rows[0].config, big.rows[57].config, big.baseline} <= set(shown.names)
    first, second = comparison_figures(comparison)
    assert "Left out: 48 configurations that are worse." in first.caption
    assert str(big.baseline) in second.caption
    assert (first.name, second.name) == ("comparison", "comparison_relative")


def test_what_was_not_measured_is_left_out() -> None:
    out = failed(1, for_all(transports="shm")), failed_later(2, threads(2), 1.0)
    rows = (measured(0, threads(16), 3.0), *out)
    answer = study_result(rows=rows)
    (figure,) = comparison_figures(Comparison([("a", answer)], REFERENCE))
    assert figure.alt == "By num_worker_threads. a: 16 3 ms"
    for studies in ([("b", nothing_ran())], []):
        assert comparison_figures(Comparison(studies, REFERENCE)) == []

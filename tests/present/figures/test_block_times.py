import numpy as np
import pytest
from matplotlib.figure import Figure

from testing.results import ROWS, failed_later, known, study_result
from testing.specs import threads
from tuner.present.figures.block_times import blocks, blocks_figure, draw_blocks
from tuner.study.answer import StudyAnswer
from tuner.study.rows import Observation


def seen(*values: tuple[int, int, float]) -> tuple[Observation, ...]:
    """Observations from trial, block and value."""
    return tuple(Observation(trial, block, "race", value) for trial, block, value in values)


def test_an_outlier_does_not_squash_the_rest() -> None:
    values = [(0, block, 3.0 + block % 3 / 10) for block in range(20)]
    values += [(0, 20, 300.0), (2, 3, 0.01), *((2, block, 2.5) for block in range(4, 12))]
    answer = study_result(observations=seen(*values))
    shown = known(blocks(answer))
    assert shown.outside == 2
    assert 2.3 < shown.low < 2.5
    assert 3.2 < shown.high < 3.5
    figure = known(blocks_figure(answer))
    assert "2 outliers are drawn as arrows at the edge" in figure.caption


def test_worlds_of_configs_that_failed_later_are_shown_and_counted() -> None:
    rows = (*ROWS, failed_later(5, threads(2), 1.0))
    answer = study_result(rows=rows, observations=seen((0, 0, 3.0), (5, 0, 1.0)))
    assert known(blocks(answer)).others == [*seen((5, 0, 1.0))]
    assert "1 configuration shown here failed later." in known(blocks_figure(answer)).caption


def test_slow_configs_are_no_outliers() -> None:
    values = [(0, block, 3.0) for block in range(8)] + [(3, block, 30.0) for block in range(8)]
    shown = known(blocks(study_result(observations=seen(*values))))
    assert shown.outside == 0
    assert shown.high > 30


def test_an_outlier_is_an_arrow_at_the_edge(big: StudyAnswer) -> None:
    shown = known(blocks(big))
    assert len(shown.others) + sum(map(len, shown.leading.values())) == big.worlds
    axes = Figure().add_subplot()
    draw_blocks(big, shown, axes)
    arrows = {
        (line.get_marker(), x)
        for line in axes.lines
        if line.get_marker() in ("^", "v")
        for x in np.asarray(line.get_xdata()).tolist()
    }
    assert arrows == {("^", 2), ("^", 4)}
    assert axes.get_yscale() == "log"
    assert axes.get_ylim() == pytest.approx((shown.low, shown.high))


def test_the_baseline_twice_in_a_block_is_two_marks() -> None:
    answer = study_result(observations=seen((0, 0, 3.0), (0, 0, 3.2), (1, 0, 2.0)))
    assert known(blocks(answer)).leading["baseline"] == [*seen((0, 0, 3.0), (0, 0, 3.2))]
    assert "A block has the baseline twice" in known(blocks_figure(answer)).caption

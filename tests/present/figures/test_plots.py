"""Plots into given axes, as a notebook asks for them."""

import pytest
from matplotlib.figure import Figure

from tests.plan.specs import threads
from tests.present.results import (
    by_threads,
    failed,
    study_result,
)
from tuner.errors import UsageError
from tuner.plan.study_plan import StudyPlan
from tuner.present.figures import plot_parallelism, plot_scaling


def test_plots_are_drawn_into_given_axes(plan: StudyPlan) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_scaling(study_result(plan), left) is left
    assert plot_parallelism(by_threads(plan, {4: {}, 1: {}}), right) is right
    assert left.get_xlabel() == right.get_xlabel() == "num_worker_threads"


def test_plots_without_axes_make_a_pyplot_figure(plan: StudyPlan) -> None:
    from matplotlib import pyplot

    before = pyplot.rcParams["font.size"], len(pyplot.get_fignums())
    axes = plot_scaling(study_result(plan))
    assert pyplot.gca() is axes
    assert len(pyplot.get_fignums()) == before[1] + 1
    pyplot.close(axes.figure)  # type: ignore[arg-type]
    assert (pyplot.rcParams["font.size"], len(pyplot.get_fignums())) == before
    with pytest.raises(UsageError, match="no configuration was measured"):
        plot_scaling(study_result(plan, rows=(failed(0, threads(16)),)))

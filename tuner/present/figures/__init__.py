"""Figures: first a value with the data, then a drawing of it. The only importer of matplotlib."""

from collections.abc import Callable, Mapping

import matplotlib as mpl
from matplotlib.axes import Axes

from tuner.errors import UsageError
from tuner.present.configurations import names_of
from tuner.present.figures.block_times import blocks_figure
from tuner.present.figures.changes import changes_figures, write_changes_figure
from tuner.present.figures.comparison import comparison_figures
from tuner.present.figures.distributions import call_time_figure, latency_figure
from tuner.present.figures.kit.canvas import STYLE, DrawnFigure, write_figures
from tuner.present.figures.kit.theme import theme_css
from tuner.present.figures.knob_figures import heat_map_figure, importance_figure
from tuner.present.figures.step_time import draw_scaling_curve, scaling_curve, step_time_figure
from tuner.present.figures.timeline_drawing import timeline_figures, write_timeline_figure
from tuner.present.figures.trade_offs import cpu_figure, pareto_figure
from tuner.present.figures.worker_threads import (
    draw_parallelism,
    forecast_figure,
    parallelism,
    parallelism_figure,
)
from tuner.study.answer import Contender, StudyAnswer
from tuner.trace.model.trace import Trace

__all__ = [
    "DrawnFigure",
    "comparison_figures",
    "plot_parallelism",
    "plot_scaling",
    "study_figures",
    "theme_css",
    "write_changes_figure",
    "write_figures",
    "write_timeline_figure",
]


def study_figures(answer: StudyAnswer, traces: Mapping[Contender, Trace]) -> list[DrawnFigure]:
    """Every figure of a study, and of those of its traces that there are, that has data."""
    names = names_of(answer)
    named = [
        (contender, names.full_name(answer.contenders[contender]), trace)
        for contender, trace in traces.items()
    ]
    found = [
        step_time_figure(answer),
        blocks_figure(answer),
        latency_figure(answer),
        cpu_figure(answer),
        pareto_figure(answer),
        call_time_figure(answer),
        parallelism_figure(answer),
        forecast_figure(answer),
        *changes_figures(answer),
        *timeline_figures(named),
        heat_map_figure(answer),
        importance_figure(answer),
    ]
    return [figure for figure in found if figure is not None]


def plot_scaling(answer: StudyAnswer, axes: Axes | None = None) -> Axes:
    """`StudyResult.plot_scaling`."""
    curve = scaling_curve(answer)
    if not curve.points:
        raise UsageError("there is nothing to plot: no configuration was measured")
    return _plotted(lambda on: draw_scaling_curve(curve, on), axes)


def plot_parallelism(answer: StudyAnswer, axes: Axes | None = None) -> Axes:
    """`StudyResult.plot_parallelism`."""
    shown = parallelism(answer)
    if shown is None:
        raise UsageError("there is nothing to plot: no traces of several numbers of threads")
    return _plotted(lambda on: draw_parallelism(shown, on), axes)


def _plotted(draw: Callable[[Axes], None], axes: Axes | None) -> Axes:
    with mpl.rc_context(STYLE):
        if axes is None:
            # Late: it takes time to import.
            from matplotlib import pyplot

            axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")[1]
        draw(axes)
    return axes

"""All figures of a study's report, in its order."""

from collections.abc import Mapping

import matplotlib as mpl
from matplotlib.axes import Axes

from tuner.errors import UsageError
from tuner.present.figures.block_times import blocks_figure
from tuner.present.figures.call_time import call_time_figure
from tuner.present.figures.cpu import cpu_figure
from tuner.present.figures.heat_map import heat_map_figure
from tuner.present.figures.importance import importance_figure
from tuner.present.figures.kit.canvas import STYLE
from tuner.present.figures.kit.config_names import names_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure
from tuner.present.figures.latency import latency_figure
from tuner.present.figures.parallelism import draw_parallelism, parallelism, parallelism_figure
from tuner.present.figures.pareto import pareto_figure
from tuner.present.figures.step_time import draw_scaling_curve, scaling_curve, step_time_figure
from tuner.present.figures.timeline_figures import timeline_figures
from tuner.study.answer import Contender, StudyAnswer
from tuner.trace.model.trace import Trace


def study_figures(answer: StudyAnswer, traces: Mapping[Contender, Trace]) -> list[DrawnFigure]:
    """Every figure for which there is data.

    Args:
        answer: The study.
        traces: The traces of its contenders, as far as there are any.
    """
    found = [
        step_time_figure(answer),
        blocks_figure(answer),
        latency_figure(answer),
        cpu_figure(answer),
        pareto_figure(answer),
        call_time_figure(answer),
        parallelism_figure(answer),
        *timeline_figures(_named(answer, traces)),
        heat_map_figure(answer),
        importance_figure(answer),
    ]
    return [figure for figure in found if figure is not None]


def _named(answer: StudyAnswer, traces: Mapping[Contender, Trace]) -> list[tuple[str, str, Trace]]:
    """The traces, each with its contender and what its configuration is called."""
    names = names_of(answer)
    return [
        (contender, names.full_name(answer.contenders[contender]), trace)
        for contender, trace in traces.items()
    ]


def plot_scaling(answer: StudyAnswer, axes: Axes | None = None) -> Axes:
    """`StudyResult.plot_scaling`."""
    curve = scaling_curve(answer)
    if not curve.points:
        raise UsageError("there is nothing to plot: no configuration was measured")
    with mpl.rc_context(STYLE):
        drawn_on = axes if axes is not None else _new_axes()
        draw_scaling_curve(curve, drawn_on)
    return drawn_on


def plot_parallelism(answer: StudyAnswer, axes: Axes | None = None) -> Axes:
    """`StudyResult.plot_parallelism`."""
    shown = parallelism(answer)
    if shown is None:
        raise UsageError("there is nothing to plot: no traces of several numbers of threads")
    with mpl.rc_context(STYLE):
        drawn_on = axes if axes is not None else _new_axes()
        draw_parallelism(shown, drawn_on)
    return drawn_on


def _new_axes() -> Axes:
    # Late: it takes time to import.
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(7, 4.2), layout="constrained")[1]

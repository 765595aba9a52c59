"""Plots in given axes, as pandas makes them; for notebooks."""

import matplotlib as mpl
from matplotlib.axes import Axes

from tuner.errors import UsageError
from tuner.present.figures.kit.canvas import STYLE
from tuner.present.figures.parallelism import draw_parallelism, parallelism
from tuner.present.figures.step_time import draw_scaling_curve, scaling_curve
from tuner.study.answer import StudyAnswer


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

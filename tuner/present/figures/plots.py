"""Figures in axes of one's own, as pandas draws them; for notebooks."""

import matplotlib as mpl
from matplotlib.axes import Axes

from tuner.errors import UsageError
from tuner.present.figures.kit.canvas import STYLE
from tuner.present.figures.parallelism import draw_parallelism, parallelism
from tuner.present.figures.step_time import draw_scaling_curve, scaling_curve
from tuner.study.answer import StudyAnswer


def plot_scaling(answer: StudyAnswer, axes: Axes | None = None) -> Axes:
    """Draw the objective by settings; without `axes` in a new pyplot figure.

    UsageError if nothing was measured.
    """
    curve = scaling_curve(answer)
    if not curve.points:
        raise UsageError("there is nothing to plot: no settings were measured")
    with mpl.rc_context(STYLE):
        drawn_on = axes if axes is not None else _new_axes()
        draw_scaling_curve(curve, drawn_on)
    return drawn_on


def plot_parallelism(answer: StudyAnswer, axes: Axes | None = None) -> Axes:
    """Draw the calls served at once by worker threads; without `axes` in a new pyplot figure.

    UsageError if no traces tell, or if the number of threads is the same in all of them.
    """
    shown = parallelism(answer)
    if shown is None:
        raise UsageError("there is nothing to plot: no traces of several numbers of threads")
    with mpl.rc_context(STYLE):
        drawn_on = axes if axes is not None else _new_axes()
        draw_parallelism(shown, drawn_on)
    return drawn_on


def _new_axes() -> Axes:
    # Only here: it takes time to import, and nobody else needs its figures.
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(7, 4.2), layout="constrained")[1]

"""Figures: first a value with the data, then a drawing of it. The only importer of matplotlib."""

from tuner.present.figures.comparison import comparison_figures
from tuner.present.figures.kit.drawn_figure import DrawnFigure, write_figures
from tuner.present.figures.kit.theme import theme_css
from tuner.present.figures.plots import plot_parallelism, plot_scaling
from tuner.present.figures.step_time import (
    CurvePoint,
    ScalingCurve,
    draw_scaling_curve,
    scaling_curve,
)
from tuner.present.figures.report_figures import study_figures
from tuner.present.figures.timeline_data import Bar, Lane, ServerLanes, Timeline, timeline
from tuner.present.figures.timeline_drawing import (
    draw_timeline,
    write_timeline_figure,
    write_timelines_figure,
)

__all__ = [
    "Bar",
    "CurvePoint",
    "DrawnFigure",
    "Lane",
    "ScalingCurve",
    "ServerLanes",
    "Timeline",
    "comparison_figures",
    "draw_scaling_curve",
    "draw_timeline",
    "plot_parallelism",
    "plot_scaling",
    "scaling_curve",
    "study_figures",
    "theme_css",
    "timeline",
    "write_figures",
    "write_timeline_figure",
    "write_timelines_figure",
]

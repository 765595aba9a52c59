"""Figures: first a value with the data, then a drawing of it. The only importer of matplotlib."""

from tuner.present.figures.comparison import comparison_figures
from tuner.present.figures.kit.drawn_figure import DrawnFigure, write_figures
from tuner.present.figures.kit.theme import theme_css
from tuner.present.figures.study_figures import plot_parallelism, plot_scaling, study_figures
from tuner.present.figures.timeline_drawing import write_timeline_figure, write_timelines_figure

__all__ = [
    "DrawnFigure",
    "comparison_figures",
    "plot_parallelism",
    "plot_scaling",
    "study_figures",
    "theme_css",
    "write_figures",
    "write_timeline_figure",
    "write_timelines_figure",
]

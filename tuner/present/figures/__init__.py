"""Figures: first a value with the data, then a drawing of it. The only importer of matplotlib."""

from tuner.present.figures.step_time import (
    CurvePoint,
    ScalingCurve,
    draw_scaling_curve,
    scaling_curve,
    write_step_time_figure,
)
from tuner.present.figures.timeline import Bar, Lane, ServerLanes, Timeline, timeline
from tuner.present.figures.timeline_drawing import (
    draw_timeline,
    write_timeline_figure,
    write_timelines_figure,
)

__all__ = [
    "Bar",
    "CurvePoint",
    "Lane",
    "ScalingCurve",
    "ServerLanes",
    "Timeline",
    "draw_scaling_curve",
    "draw_timeline",
    "scaling_curve",
    "timeline",
    "write_step_time_figure",
    "write_timeline_figure",
    "write_timelines_figure",
]

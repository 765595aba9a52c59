"""The main figure of a study: the objective of each configuration."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes

from tuner.plan.config import Config
from tuner.plan.objectives import Objective
from tuner.present.figures.kit.axis import plain_axis, reach, threads_axis, top_of
from tuner.present.figures.kit.config_names import (
    ConfigNames,
    names_of,
    threads_dimension,
    varying_dimensions,
)
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import Entry, entry_name, entry_names, legend_above
from tuner.present.figures.kit.row_names import Rows, shown_rows
from tuner.present.figures.kit.theme import BASELINE, BEST, INK, OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE as BASELINE_TRIAL
from tuner.text import first_of, percent, plain_number, plural, three_digits

# The series differ in marker and line, not only in colour: they can be told apart in grey.
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
_MOST_TOLD = 8
"""The most configurations that the alternative text names."""
_MOST_SERIES = 5
"""More series than this cannot be told apart: the others are grey."""


class CurvePoint(NamedTuple):
    """One configuration in the figure; the interval is NaN where only one world was measured."""

    x: float
    value: float
    low: float
    high: float
    trial: int


@dataclass(frozen=True)
class ScalingCurve:
    """The objective against the worker threads, or of each configuration in a row of its own.

    Against the threads there is a series for each combination of the other knobs.
    """

    x_label: str
    objective: Objective
    series: dict[str, list[CurvePoint]]
    ticks: dict[float, str]
    numeric: bool
    """Whether x is a number of threads, drawn on a log2 axis; else it is the place of a row."""
    names: ConfigNames
    best: int | None
    """The trial of the best configuration."""
    left_out: int = 0
    """How many measured configurations are not in the figure."""

    @property
    def points(self) -> list[CurvePoint]:
        """The points of all series."""
        return [point for series in self.series.values() for point in series]

    @property
    def rows(self) -> Rows:
        """A row per configuration, where x is the place of a row."""
        return Rows(tuple(self.ticks.values()))

    @property
    def named(self) -> list[str]:
        """The series in colour: the baseline's, the best one's, and the best of the others."""

        def rank(name: str) -> tuple[bool, float]:
            points = self.series[name]
            marked = any(point.trial in (BASELINE_TRIAL, self.best) for point in points)
            return (not marked, min(self.objective.cost(point.value) for point in points))

        kept = sorted(self.series, key=rank)[:_MOST_SERIES]
        return [name for name in self.series if name in kept]

    @property
    def top(self) -> float:
        """The end of the axis of the objective."""
        return top_of(self.points)


def scaling_curve(answer: StudyAnswer) -> ScalingCurve:
    """The objective against the worker threads, or row by row where these do not vary.

    A configuration that does not name its threads has PyTorch's default number of them.
    """
    names, workload = names_of(answer), answer.plan.subject
    measured = [row for row in answer.rows if row.is_measured]
    threads = threads_dimension(answer)
    others = [dimension for dimension in varying_dimensions(answer) if dimension != threads]
    rows = shown_rows(names, measured) if threads is None else measured
    series: dict[str, list[CurvePoint]] = {}
    ticks: dict[float, str] = {}
    for position, row in enumerate(rows):
        if threads is None:
            x, name = float(position), ""
            ticks[x] = names.name(row.trial)
        else:
            rest = {each: row.config.value_of(each, workload) for each in others}
            x = float(str(row.config.value_of(threads, workload)))
            name = str(Config.of(rest)) if rest else ""
            ticks[x] = plain_number(x)
        point = CurvePoint(x, row.value, row.ci_low, row.ci_high, row.trial)
        series.setdefault(name, []).append(point)
    for points in series.values():
        points.sort()
    objective = answer.objective
    return ScalingCurve(
        x_label=names.knob or "configuration" if threads is None else str(threads),
        objective=objective,
        series=series,
        ticks=dict(sorted(ticks.items())),
        numeric=threads is not None,
        names=names,
        best=answer.best_trial,
        left_out=len(measured) - len(rows),
    )


def draw_scaling_curve(curve: ScalingCurve, axes: Axes) -> None:
    """Points with their intervals, joined by series; the baseline and the best marked and named."""
    if curve.numeric:
        handles = _draw_series(curve, axes)
        threads_axis(axes, "x", curve.ticks)
        axes.set_xlabel(curve.x_label)
        plain_axis(axes, "y", 6)
    else:
        handles = []
        rows = curve.rows
        for point in curve.points:
            axes.errorbar(
                point.value, rows.at[int(point.x)], xerr=reach([point], curve.top), marker="o",
                markersize=5, color=SERIES[0].light, linewidth=1.2, capsize=3, zorder=6,
            )  # fmt: skip
        plain_axis(axes, "x", 5)
        rows.draw(axes, curve.x_label)
    handles = [*_mark(curve, axes), *handles]
    if curve.points:
        (axes.set_ylim if curve.numeric else axes.set_xlim)(0, curve.top)
    (axes.set_ylabel if curve.numeric else axes.set_xlabel)(curve.objective.short_heading)
    lines = 0.3 if curve.numeric else curve.rows.heading_lines(curve.x_label)
    legend_above(axes, handles, lines_between=lines)


def _draw_series(curve: ScalingCurve, axes: Axes) -> list[Entry]:
    """Draw the series; returns the entries of a legend."""
    named = curve.named
    others = [points for name, points in curve.series.items() if name not in named]
    handles: list[Entry] = []
    lines: Sequence[Entry] = []
    for points in others:
        lines = axes.plot(
            [p.x for p in points], [p.value for p in points], color=OTHER.light, linewidth=0.7,
            marker=".", markersize=3,
            label=plural(len(others), "other combination"),
        )  # fmt: skip
    entries = entry_names(named)
    for index, name in enumerate(named):
        points = curve.series[name]
        colour = SERIES[index % len(SERIES)].light
        drawn_series = axes.errorbar(
            [p.x for p in points],
            [p.value for p in points],
            yerr=reach(points, curve.top),
            marker=MARKERS[index % len(MARKERS)],
            markersize=5,
            color=colour,
            linestyle=LINES[index % len(LINES)],
            linewidth=1.2,
            capsize=3,
            zorder=6,  # above the marks, which would hide a short interval
            label=entries[name],
        )
        if name:
            handles.append(drawn_series)
    return [*handles, *lines[:1]]


def _mark(curve: ScalingCurve, axes: Axes) -> list[Entry]:
    """Mark the baseline and the best; returns the entries of a legend."""
    marks: list[Entry] = []
    kept = curve.best == BASELINE_TRIAL
    for trial, text, marker, colour in (
        (BASELINE_TRIAL, "baseline, kept" if kept else "baseline", "s", BASELINE),
        (None if kept else curve.best, "best", "*", BEST),
    ):
        for point in curve.points:
            if point.trial == trial:
                marks += axes.plot(
                    point.x if curve.numeric else point.value,
                    point.value if curve.numeric else curve.rows.at[int(point.x)],
                    marker=marker,
                    markersize=13,
                    markerfacecolor=colour.light if text == "best" else "none",
                    markeredgecolor=INK.light if text == "best" else colour.light,
                    linestyle="none",
                    label=entry_name(f"{text}: {curve.names.full_name(point.trial)}"),
                    zorder=7 if text == "best" else 5,
                )
    return marks


def step_time_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The scaling curve with words; None where nothing was measured."""
    curve = scaling_curve(answer)
    if not curve.points:
        return None
    height = 2.7 if curve.numeric else 0.75 + curve.rows.height_in
    return drawn(
        _words(answer, curve), height,
        lambda figure: draw_scaling_curve(curve, figure.add_subplot()),
    )  # fmt: skip


def _words(answer: StudyAnswer, curve: ScalingCurve) -> Words:
    confidence = percent(answer.plan.measuring.confidence)
    caption = (
        f"Each mark is the {answer.objective.label} of one configuration over its worlds, its bar "
        f"the {confidence} interval; {answer.objective.better}."
    )
    if curve.left_out:
        shown = len(curve.points)
        caption += f" Shown are {shown} of {shown + curve.left_out} configurations, the best."
    if curve.numeric and len(curve.series) > len(curve.named):
        caption += " Grey lines are combinations of the other knobs that are worse."
    return Words(
        name="step_time",
        title=f"{_capital(answer.objective.label)} by configuration",
        caption=caption,
        alt=f"{_capital(answer.objective.label)} {curve.names.by}: "
        + values_text(curve.points, curve.names, answer.objective),
    )


def values_text(points: Iterable[CurvePoint], names: ConfigNames, objective: Objective) -> str:
    """`4 (best) 2 ms (1.9 to 2.1), ...`: the best points in words."""
    texts = []
    for point in sorted(points, key=lambda point: objective.cost(point.value)):
        text = f"{names.row_name(point.trial)} {three_digits(point.value)} {objective.unit}"
        if math.isfinite(point.low) and math.isfinite(point.high):
            text += f" ({three_digits(point.low)} to {three_digits(point.high)})"
        texts.append(text)
    return first_of(texts, _MOST_TOLD, rest="that are worse")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

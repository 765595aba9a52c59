"""The main figure of a study: the objective of each configuration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes

from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.present.configurations import (
    ConfigNames,
    names_of,
    threads_dimension,
    varying_dimensions,
)
from tuner.present.figures.kit.axis import plain_axis, reach, threads_axis, top_of
from tuner.present.figures.kit.canvas import DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import (
    Entry,
    Rows,
    entry_name,
    entry_names,
    legend_above,
    shown_rows,
)
from tuner.present.figures.kit.theme import BASELINE, BEST, INK, LINES, MARKERS, OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE as BASELINE_TRIAL
from tuner.text import first_of, percent, plural, three_digits

_MOST_TOLD = 8
"""The most configurations that the alternative text names."""
_MOST_SERIES = 5
"""More series than this cannot be told apart: the others are grey."""


class CurvePoint(NamedTuple):
    """One configuration in the figure."""

    x: float
    """Its number of threads, or the place of its row."""
    trial: int
    value: Interval
    """NaN at its ends where only one world was measured."""


@dataclass(frozen=True)
class ScalingCurve:
    """The objective by worker threads, a series per combination of other knobs; or in rows."""

    answer: StudyAnswer
    threads: str | None
    """The dimension of the x axis, on a log2 scale; None where there are rows."""
    series: dict[str, list[CurvePoint]]
    left_out: int
    """How many measured configurations are not in the figure."""

    @property
    def names(self) -> ConfigNames:
        """What the configurations are called."""
        return names_of(self.answer)

    @property
    def points(self) -> list[CurvePoint]:
        """The points of all series."""
        return [point for series in self.series.values() for point in series]

    @property
    def rows(self) -> Rows:
        """A row per configuration, where there are rows."""
        names = self.names.names
        return Rows(tuple(names[point.trial] for point in self.points))

    @property
    def named(self) -> list[str]:
        """The series in colour: the baseline's, the best one's, and the best of the others."""

        def rank(name: str) -> tuple[bool, float]:
            points, marked = self.series[name], (BASELINE_TRIAL, self.answer.best_trial)
            best = min(self.answer.objective.cost(point.value.estimate) for point in points)
            return not any(point.trial in marked for point in points), best

        kept = sorted(self.series, key=rank)[:_MOST_SERIES]
        return [name for name in self.series if name in kept]


def scaling_curve(answer: StudyAnswer) -> ScalingCurve:
    """The objective against the worker threads, those of a default included, or else row by row."""
    names, subject = names_of(answer), answer.plan.subject
    measured = [row for row in answer.rows if row.is_measured]
    threads = threads_dimension(answer)
    others = [dimension for dimension in varying_dimensions(answer) if dimension != threads]
    rows = shown_rows(names, measured) if threads is None else measured
    series: dict[str, list[CurvePoint]] = {}
    for place, row in enumerate(rows):
        x, name = float(place), ""
        if threads is not None:
            x = float(str(row.config.value_of(threads, subject)))
            if others:
                name = str(Config.of({each: row.config.value_of(each, subject) for each in others}))
        value = Interval(row.value, row.ci_low, row.ci_high)
        series.setdefault(name, []).append(CurvePoint(x, row.trial, value))
    for points in series.values():
        points.sort(key=lambda point: (point.x, point.value.estimate))
    label = None if threads is None else str(threads)
    return ScalingCurve(answer, label, series, len(measured) - len(rows))


def draw_scaling_curve(curve: ScalingCurve, axes: Axes) -> None:
    """Points with their intervals, joined by series; the baseline and the best marked and named."""
    top, rows = top_of([point.value for point in curve.points]), curve.rows
    if curve.threads is not None:
        handles = _draw_series(curve, top, axes)
        threads_axis(axes, "x", [point.x for point in curve.points])
        axes.set_xlabel(curve.threads)
        plain_axis(axes, "y", 6)
        legend_above(axes, [*_mark(curve, axes), *handles])
        axes.set_ylim(0, top)
        axes.set_ylabel(curve.answer.objective.short_heading)
        return
    label = curve.names.knob or "configuration"
    for point, at in zip(curve.points, rows.at, strict=True):
        axes.errorbar(
            point.value.estimate, at, xerr=reach([point.value], top), marker="o", markersize=5,
            color=SERIES[0].light, linewidth=1.2, capsize=3, zorder=6,
        )  # fmt: skip
    plain_axis(axes, "x", 5)
    rows.draw(axes, label)
    legend_above(axes, _mark(curve, axes), lines_between=rows.heading_lines(label))
    axes.set_xlim(0, top)
    axes.set_xlabel(curve.answer.objective.short_heading)


def _draw_series(curve: ScalingCurve, top: float, axes: Axes) -> list[Entry]:
    """Draw the series; returns the entries of a legend."""
    named = curve.named
    others = [points for name, points in curve.series.items() if name not in named]
    handles: list[Entry] = []
    lines: Sequence[Entry] = []
    for points in others:
        lines = axes.plot(
            [p.x for p in points], [p.value.estimate for p in points], color=OTHER.light,
            linewidth=0.7, marker=".", markersize=3,
            label=plural(len(others), "other combination"),
        )  # fmt: skip
    entries = entry_names(named)
    for index, name in enumerate(named):
        points = curve.series[name]
        line = axes.errorbar(
            [p.x for p in points], [p.value.estimate for p in points],
            yerr=reach([p.value for p in points], top), marker=MARKERS[index], markersize=5,
            color=SERIES[index].light, linestyle=LINES[index], linewidth=1.2, capsize=3,
            zorder=6,  # above the marks, which would hide a short interval
            label=entries[name],
        )  # fmt: skip
        if name:
            handles.append(line)
    return [*handles, *lines[:1]]


def _mark(curve: ScalingCurve, axes: Axes) -> list[Entry]:
    """Mark the baseline and the best; returns the entries of a legend."""
    marks: list[Entry] = []
    names, best = curve.names, curve.answer.best_trial
    kept = best == BASELINE_TRIAL
    for trial, text, marker, face, edge, zorder in (
        (BASELINE_TRIAL, "baseline, kept" if kept else "baseline", "s", "none", BASELINE.light, 5),
        (None if kept else best, "best", "*", BEST.light, INK.light, 7),
    ):
        for point, at in zip(curve.points, curve.rows.at, strict=True):
            if point.trial == trial:
                value = point.value.estimate
                marks += axes.plot(
                    *((value, at) if curve.threads is None else (point.x, value)),
                    marker=marker, markersize=13, markerfacecolor=face, markeredgecolor=edge,
                    linestyle="none", zorder=zorder,
                    label=entry_name(f"{text}: {names.full_name(trial)}"),
                )  # fmt: skip
    return marks


def step_time_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The scaling curve with words; None where nothing was measured."""
    curve = scaling_curve(answer)
    if not curve.points:
        return None
    label = answer.objective.label[:1].upper() + answer.objective.label[1:]
    caption = (
        f"Each mark is the {answer.objective.label} of one configuration over its worlds, its bar "
        f"the {percent(answer.plan.measuring.confidence)} interval; {answer.objective.better}."
    )
    if curve.left_out:
        shown = len(curve.points)
        caption += f" Shown are {shown} of {shown + curve.left_out} configurations, the best."
    if curve.threads and len(curve.series) > len(curve.named):
        caption += " Grey lines are combinations of the other knobs that are worse."
    return drawn(
        lambda figure: draw_scaling_curve(curve, figure.add_subplot()),
        2.7 if curve.threads else 0.75 + curve.rows.height_in,
        name="step_time",
        title=f"{label} by configuration",
        caption=caption,
        alt=f"{label} {curve.names.by}: {values_text(curve)}",
    )


def values_text(curve: ScalingCurve) -> str:
    """`4 (best) 2 ms (1.9 to 2.1), ...`: the best points in words."""
    texts, names = [], curve.names
    objective = curve.answer.objective
    for point in sorted(curve.points, key=lambda each: objective.cost(each.value.estimate)):
        found = point.value
        value, low, high = map(three_digits, (found.estimate, found.low, found.high))
        has_ends = math.isfinite(found.low) and math.isfinite(found.high)
        interval = f" ({low} to {high})" if has_ends else ""
        texts.append(f"{names.row_name(point.trial)} {value} {objective.unit}{interval}")
    return first_of(texts, _MOST_TOLD, rest="that are worse")

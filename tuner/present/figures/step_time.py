"""The figure of a study: the objective against a knob."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from tuner.plan.config import Config
from tuner.present.figures.kit.axis import threads_axis
from tuner.present.figures.kit.config_names import Cast, cast_of, shown_rows
from tuner.present.figures.kit.varying_knobs import threads_dimension, varying_dimensions
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import Entry, entry_name, legend_above
from tuner.present.figures.kit.rows import Rows
from tuner.present.figures.kit.intervals import reach, top_of
from tuner.present.figures.kit.theme import BASELINE, BEST, INK, OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.text import plural, three_digits

# Readable in grey: the series differ in marker and line, not only in colour.
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
_MOST_SERIES = 5
"""More series than this cannot be told apart: then the others are grey."""


class CurvePoint(NamedTuple):
    """One settings in the figure; the interval is NaN where one world is all there is."""

    x: float
    value: float
    low: float
    high: float
    label: str


@dataclass(frozen=True)
class ScalingCurve:
    """The objective against a knob; one series for each combination of the other knobs."""

    x_label: str
    y_label: str
    series: dict[str, list[CurvePoint]]
    ticks: dict[float, str]
    numeric: bool
    """Whether x is a number of threads (drawn on a log2 axis) or the place of a row."""
    baseline: str
    best: str | None
    names: Mapping[str, str] = field(default_factory=dict)
    """What the settings are called, by label."""
    left_out: int = 0
    """How many settings that were measured are not in the figure."""

    @property
    def points(self) -> list[CurvePoint]:
        """The points of all series."""
        return [point for series in self.series.values() for point in series]

    @property
    def rows(self) -> Rows:
        """A row per settings, where these have no number of threads."""
        return Rows(tuple(self.ticks.values()))

    @property
    def named(self) -> list[str]:
        """The series to tell apart: those of the baseline and of the best, and the fastest."""

        def rank(name: str) -> tuple[bool, float]:
            points = self.series[name]
            marked = any(point.label in (self.baseline, self.best) for point in points)
            return (not marked, min(point.value for point in points))

        kept = sorted(self.series, key=rank)[:_MOST_SERIES]
        return [name for name in self.series if name in kept]

    @property
    def top(self) -> float:
        """Up to where the objective is drawn."""
        return top_of(self.points)


def scaling_curve(result: StudyAnswer) -> ScalingCurve:
    """The objective against the worker threads, or row by row where these do not vary.

    What settings do not name they inherit, so that all of them have a place on the axis.
    """
    cast, workload = cast_of(result), result.plan.workload
    measured = [row for row in result.rows if row.counts]
    threads = threads_dimension(result)
    others = [dimension for dimension in varying_dimensions(result) if dimension != threads]
    rows = shown_rows(cast, measured) if threads is None else measured
    series: dict[str, list[CurvePoint]] = {}
    ticks: dict[float, str] = {}
    for position, row in enumerate(rows):
        if threads is None:
            x, name = float(position), ""
            ticks[x] = cast.name(row.label)
        else:
            config = Config.from_json(row.config)
            rest = {each: config.value_of(each, workload) for each in others}
            x = float(str(config.value_of(threads, workload)))
            name = str(Config.of(rest)) if rest else ""
            ticks[x] = f"{x:g}"
        point = CurvePoint(x, row.value, row.ci_low, row.ci_high, row.label)
        series.setdefault(name, []).append(point)
    for points in series.values():
        points.sort()
    objective = result.objective
    return ScalingCurve(
        x_label=cast.knob or "config" if threads is None else str(threads),
        y_label=f"{objective.label} ({objective.unit})",
        series=series,
        ticks=dict(sorted(ticks.items())),
        numeric=threads is not None,
        baseline=str(result.baseline),
        best=None if result.best is None else str(result.best),
        names={row.label: cast.full_name(row.label) for row in rows},
        left_out=len(measured) - len(rows),
    )


def draw_scaling_curve(curve: ScalingCurve, axes: Axes) -> None:
    """Points with their intervals, series joined by lines, baseline and best marked and named."""
    if curve.numeric:
        handles = _draw_series(curve, axes)
        threads_axis(axes, "x", curve.ticks)
        axes.set_xlabel(curve.x_label)
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    else:
        handles = []
        rows = curve.rows
        for point in curve.points:
            axes.errorbar(
                point.value, rows.at[int(point.x)], xerr=reach([point], curve.top), marker="o",
                markersize=5, color=SERIES[0].light, linewidth=1.2, capsize=3, zorder=6,
            )  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(ScalarFormatter(useOffset=False))
        rows.draw(axes, curve.x_label)
    handles = [*_mark(curve, axes), *handles]
    if curve.points:
        (axes.set_ylim if curve.numeric else axes.set_xlim)(0, curve.top)
    (axes.set_ylabel if curve.numeric else axes.set_xlabel)(curve.y_label)
    lines = 0.3 if curve.numeric else curve.rows.heading_lines(curve.x_label)
    legend_above(axes, handles, lines_between=lines)


def _draw_series(curve: ScalingCurve, axes: Axes) -> list[Entry]:
    """Draw the series; returns those to name in a legend."""
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
            label=entry_name(name),
        )
        if name:
            handles.append(drawn_series)
    return [*handles, *lines[:1]]


def _mark(curve: ScalingCurve, axes: Axes) -> list[Entry]:
    """Mark the baseline and the best; returns the marks."""
    marks: list[Entry] = []
    kept = curve.best == curve.baseline
    for label, text, marker, colour in (
        (curve.baseline, "baseline, kept" if kept else "baseline", "s", BASELINE),
        (None if kept else curve.best, "best", "*", BEST),
    ):
        for point in curve.points:
            if point.label == label:
                marks += axes.plot(
                    point.x if curve.numeric else point.value,
                    point.value if curve.numeric else curve.rows.at[int(point.x)],
                    marker=marker,
                    markersize=13,
                    markerfacecolor=colour.light if text == "best" else "none",
                    markeredgecolor=INK.light if text == "best" else colour.light,
                    linestyle="none",
                    label=entry_name(f"{text}: {curve.names.get(label, label)}"),
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
        _words(answer, curve, cast_of(answer)), height,
        lambda figure: draw_scaling_curve(curve, figure.add_subplot()),
    )  # fmt: skip


def _words(answer: StudyAnswer, curve: ScalingCurve, cast: Cast) -> Words:
    confidence = f"{answer.plan.measuring.confidence * 100:g} %"
    caption = (
        f"Each mark is the {answer.objective.label} of one settings over its worlds, the bar its "
        f"{confidence} interval; lower is better."
    )
    if curve.left_out:
        shown = len(curve.points)
        caption += f" Shown are {shown} of {shown + curve.left_out} settings, the fastest."
    if curve.numeric and len(curve.series) > len(curve.named):
        caption += " Grey lines are combinations of the other knobs that are slower."
    return Words(
        name="step_time",
        title=f"{_capital(answer.objective.label)} by settings",
        caption=caption,
        alt=f"{_capital(answer.objective.label)} {cast.by}: "
        + values_text(answer, cast, curve.points),
    )


def values_text(answer: StudyAnswer, cast: Cast, points: Iterable[CurvePoint]) -> str:
    """`4 (best) 2 ms (1.9 to 2.1), ...`, the fastest first, eight at most."""
    ordered = sorted(points, key=lambda point: point.value)
    texts = []
    for point in ordered[:8]:
        text = f"{cast.row_name(point.label)} {three_digits(point.value)} {answer.objective.unit}"
        if math.isfinite(point.low) and math.isfinite(point.high):
            text += f" ({three_digits(point.low)} to {three_digits(point.high)})"
        texts.append(text)
    more = f", and {len(ordered) - 8} slower settings" if len(ordered) > 8 else ""
    return ", ".join(texts) + more


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

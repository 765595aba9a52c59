"""The figure of a study: the objective against a knob."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from tuner.decide.result import StudyAnswer
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.settings import Settings
from tuner.present.figures.canvas import canvas

# Readable in grey: the series differ in marker and line, not only in colour.
_MARKERS = ("o", "s", "^", "D", "v", "P")


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
    title: str
    series: dict[str, list[CurvePoint]]
    ticks: dict[float, str]
    numeric: bool
    """Whether x is a number of threads (drawn on a log2 axis) or a position."""
    baseline: str
    best: str | None


def scaling_curve(result: StudyAnswer) -> ScalingCurve:
    """The objective against `num_worker_threads`, or side by side where that is not what varies."""
    rows = [row for row in result.rows if not math.isnan(row.value)]
    found = [(_split(Settings.from_json(row.settings)), row) for row in rows]
    numeric = len({threads for (threads, _), _ in found}) > 1 and all(
        threads is not None for (threads, _), _ in found
    )
    series: dict[str, list[CurvePoint]] = {}
    ticks: dict[float, str] = {}
    for position, ((threads, rest), row) in enumerate(found):
        x = float(threads) if numeric and threads is not None else float(position)
        ticks[x] = f"{x:g}" if numeric else row.label
        point = CurvePoint(x, row.value, row.ci_low, row.ci_high, row.label)
        series.setdefault(rest if numeric else "", []).append(point)
    for points in series.values():
        points.sort()
    objective = result.objective
    return ScalingCurve(
        x_label=NUM_WORKER_THREADS.name if numeric else "settings",
        y_label=f"{objective.label} ({objective.unit})",
        title=f"{result.plan.workload.reference}: {objective.label} by settings",
        series=series,
        ticks=dict(sorted(ticks.items())),
        numeric=numeric,
        baseline=str(result.baseline),
        best=None if result.best is None else str(result.best),
    )


def _split(settings: Settings) -> tuple[int | None, str]:
    """The worker threads if the settings have one number of them, and the rest as a label."""
    threads: int | None = None
    rest = []
    for dimension, value in settings.items:
        if dimension.knob == NUM_WORKER_THREADS.name and threads is None:
            assert isinstance(value, int)
            threads = value
        else:
            rest.append((dimension, value))
    return threads, str(Settings.of(rest)) if rest else ""


def draw_scaling_curve(curve: ScalingCurve, axes: Axes) -> None:
    """Points with their intervals, series joined by lines, baseline and best marked and named."""
    for index, (name, points) in enumerate(curve.series.items()):
        spread = [
            [0.0 if math.isnan(p.low) else p.value - p.low for p in points],
            [0.0 if math.isnan(p.high) else p.high - p.value for p in points],
        ]
        axes.errorbar(
            [p.x for p in points],
            [p.value for p in points],
            yerr=spread,
            marker=_MARKERS[index % len(_MARKERS)],
            linestyle="-" if curve.numeric else "none",
            linewidth=1.2,
            capsize=4,
            zorder=6,  # above the marks, which would hide a short interval
            label=name or "settings",
        )
    points = [point for series in curve.series.values() for point in series]
    for label, text, marker, colour in (
        (curve.baseline, "baseline", "s", "black"),
        (curve.best, "best", "*", "tab:orange"),
    ):
        for point in points:
            if point.label == label:
                axes.plot(
                    point.x,
                    point.value,
                    marker=marker,
                    markersize=15,
                    markerfacecolor="none" if text == "baseline" else colour,
                    markeredgecolor="black",
                    linestyle="none",
                    label=f"{text}: {label}",
                    zorder=5,
                )
    if curve.numeric:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(curve.ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels(
        list(curve.ticks.values()), rotation=0 if curve.numeric else 30,
        ha="center" if curve.numeric else "right",
    )  # fmt: skip
    axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(curve.x_label)
    axes.set_ylabel(curve.y_label)
    axes.set_title(curve.title)
    axes.legend(frameon=False, fontsize="small")


def write_step_time_figure(result: StudyAnswer, paths: tuple[Path, ...]) -> None:
    """Draw the scaling curve to each path, in the format of its suffix (`.svg`, `.png`)."""
    curve = scaling_curve(result)
    with canvas((7, 4.2), paths) as figure:
        draw_scaling_curve(curve, figure.add_subplot())

"""Studies side by side: what the same settings take in each of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from tuner.decide.result import StudyAnswer
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.settings import Settings
from tuner.present.figures.axis import threads_axis
from tuner.present.figures.cast import most_rows, short_names
from tuner.present.figures.drawn import DrawnFigure, Words, drawn
from tuner.present.figures.legends import Entry, entry_name, legend_above
from tuner.present.figures.rows import Rows
from tuner.present.figures.spread import reach, top_of
from tuner.present.figures.step_time import LINES, MARKERS
from tuner.present.figures.theme import MUTED, SERIES
from tuner.present.numbers import three_digits

_MOST_TOLD = 6
"""Settings of a study of which the numbers are told in words."""


class ComparedPoint(NamedTuple):
    """One settings in one study; the interval is NaN where one world is all there is."""

    label: str
    value: float
    low: float
    high: float

    def over(self, reference: float) -> "ComparedPoint":
        """The point as a multiple of a value."""
        return ComparedPoint(
            self.label, self.value / reference, self.low / reference, self.high / reference
        )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A value by settings, one series per study."""

    value_label: str
    knob: str | None
    """The knob that is all that the settings differ in."""
    names: Mapping[str, str]
    """The settings shown, by label: what they are called, in the order in which they stand."""
    threads: Mapping[str, int]
    """Their worker threads, where these are all that differs; else empty."""
    series: tuple[tuple[str, tuple[ComparedPoint, ...]], ...]
    """The studies by name; points in the order of the settings."""
    left_out: int
    reference: str | None = None
    """The settings that all values are multiples of; None if they are absolute."""

    @property
    def rows(self) -> Rows:
        """A row per settings, with room for each study."""
        return Rows(tuple(self.names.values()), bar_in=max(0.14, 0.11 * len(self.series)))


def comparison(answers: Sequence[tuple[str, StudyAnswer]]) -> Comparison | None:
    """What the settings of these studies took; None where nothing was measured."""
    series = [
        (
            name,
            {
                row.label: ComparedPoint(row.label, row.value, row.ci_low, row.ci_high)
                for row in answer.rows
                if not math.isnan(row.value)
            },
        )
        for name, answer in answers
    ]
    # By the best place that settings have in any study, so that no study's fastest is left out.
    places: dict[str, int] = {}
    for _, points in series:
        for place, label in enumerate(points):
            places[label] = min(place, places.get(label, place))
    if not places:
        return None
    settings = {
        row.label: Settings.from_json(row.settings)
        for _, answer in answers
        for row in answer.rows
        if row.label in places
    }
    knob, names = short_names([settings[label] for label in places])
    threads = (
        {label: int(name) for label, name in names.items()}
        if knob is not None and knob.rpartition(".")[2] == NUM_WORKER_THREADS.name
        else {}
    )
    kept = sorted(places, key=lambda label: places[label])
    if not threads:
        kept = _with_baselines(kept, answers, most_rows(names.values()))
    order = sorted(kept, key=lambda label: threads[label]) if threads else kept
    objective = answers[0][1].objective
    return Comparison(
        value_label=f"{objective.label} ({objective.unit})",
        knob=knob,
        names={label: names[label] for label in order},
        threads=threads,
        series=tuple(
            (name, tuple(points[label] for label in order if label in points))
            for name, points in series
        ),
        left_out=len(places) - len(order),
    )


def _with_baselines(
    labels: list[str], answers: Sequence[tuple[str, StudyAnswer]], most: int
) -> list[str]:
    """The first of these labels, and the studies' baselines."""
    baselines = {str(answer.baseline) for _, answer in answers}.intersection(labels)
    kept = baselines.union(
        [label for label in labels if label not in baselines][: most - len(baselines)]
    )
    return [label for label in labels if label in kept]


def relative(shown: Comparison, baseline: str) -> Comparison | None:
    """Each study's values as multiples of its own value of one settings, which all have.

    That is the baseline, or else the first settings of the first study; None if none is common.
    """
    by_study = [{point.label: point for point in points} for _, points in shown.series]
    common = [point.label for point in shown.series[0][1]]
    common = [label for label in common if all(label in points for points in by_study)]
    if not common:
        return None
    reference = baseline if baseline in common else common[0]
    series = tuple(
        (name, tuple(point.over(points[reference].value) for point in points.values()))
        for (name, _), points in zip(shown.series, by_study, strict=True)
    )
    label = f"{shown.value_label.rpartition(' (')[0]}\n(multiple of the reference)"
    return replace(shown, series=series, reference=reference, value_label=label)


def draw_comparison(shown: Comparison, axes: Axes) -> None:
    """A line per study over the threads, or a row per settings with a mark for each study."""
    rows = shown.rows
    places = dict(zip(shown.names, rows.at, strict=True))
    along = bool(shown.threads)
    handles: list[Entry] = []
    top = top_of([point for _, points in shown.series for point in points])
    if shown.reference is not None:
        (axes.axhline if along else axes.axvline)(1.0, color=MUTED.light, linewidth=1.0, zorder=1)
    for number, (name, points) in enumerate(shown.series):
        offset = (number + 0.5) / len(shown.series) - 0.5
        at = [
            shown.threads[point.label] if along else places[point.label] + rows.bar_in * offset
            for point in points
        ]
        values = [point.value for point in points]
        spread = reach(points, top)
        line = axes.errorbar(
            at if along else values,
            values if along else at,
            xerr=None if along else spread,
            yerr=spread if along else None,
            marker=MARKERS[number % len(MARKERS)],
            markersize=5,
            color=SERIES[number % len(SERIES)].light,
            linestyle=LINES[number % len(LINES)] if along else "none",
            linewidth=1.2,
            capsize=3,
            label=entry_name(name),
        )
        handles.append(line)
    value_axis = axes.yaxis if along else axes.xaxis
    value_axis.set_major_locator(MaxNLocator(6))
    value_axis.set_major_formatter(ScalarFormatter(useOffset=False))
    (axes.set_ylim if along else axes.set_xlim)(0, top)
    (axes.set_ylabel if along else axes.set_xlabel)(shown.value_label)
    if along:
        threads_axis(axes, "x", shown.threads.values())
        axes.set_xlabel(str(shown.knob))
    else:
        rows.draw(axes, shown.knob)
    lines = 0.3 if along else rows.heading_lines(shown.knob)
    legend_above(axes, handles, lines_between=lines)


def comparison_figures(answers: Sequence[tuple[str, StudyAnswer]]) -> list[DrawnFigure]:
    """What the same settings take in each study, and then relative to settings that all have."""
    shown = comparison(answers)
    if shown is None:
        return []
    confidence = f"{answers[0][1].plan.measuring.confidence * 100:g} %"
    objective = answers[0][1].objective
    caption = (
        f"The {objective.label} of each settings in each study, with its {confidence} interval; "
        "lower is better."
    )
    if shown.left_out:
        caption += f" The {shown.left_out} slowest settings are left out."
    figures = [_figure(shown, "comparison", "Settings in each study", caption, objective.unit)]
    scaled = relative(shown, str(answers[0][1].baseline))
    if scaled is not None:
        title = "Settings relative to a reference"
        caption = (
            f"The same as multiples of what {scaled.reference} takes in the same study: below 1 "
            "is faster. The intervals are scaled alike, without the reference's own uncertainty."
        )
        figures.append(_figure(scaled, "comparison_relative", title, caption, "times"))
    return figures


def _figure(shown: Comparison, name: str, title: str, caption: str, unit: str) -> DrawnFigure:
    texts = []
    for study, points in shown.series:
        values = [
            f"{shown.names[point.label]} {three_digits(point.value)} {unit}"
            for point in sorted(points, key=lambda point: point.value)
        ]
        told = ", ".join(values[:_MOST_TOLD]) or "nothing measured"
        more = len(values) - _MOST_TOLD
        texts.append(f"{study}: {told}" + (f", and {more} slower settings" if more > 0 else ""))
    words = Words(
        name=name,
        title=title,
        caption=caption,
        alt=f"By {shown.knob or 'settings'}. {'; '.join(texts)}",
    )
    height = 2.7 if shown.threads else 0.75 + shown.rows.height_in
    height += 0.15 * (shown.reference is not None)
    return drawn(words, height, lambda figure: draw_comparison(shown, figure.add_subplot()))

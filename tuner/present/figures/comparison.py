"""Studies side by side: what the same settings take in each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from tuner.plan.config import Config
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.present.figures.kit.axis import threads_axis
from tuner.present.figures.kit.config_names import most_rows, short_names
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import Entry, entry_name, legend_above
from tuner.present.figures.kit.rows import Rows
from tuner.present.figures.kit.intervals import reach, top_of
from tuner.present.figures.kit.theme import MUTED, SERIES
from tuner.present.figures.step_time import LINES, MARKERS
from tuner.study.answer import StudyAnswer
from tuner.text import three_digits

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
class SideBySide:
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


def side_by_side(answers: Sequence[tuple[str, StudyAnswer]], reference: str) -> SideBySide | None:
    """What the settings of these studies took; None where nothing was measured.

    The settings with the reference's label are always among those shown.
    """
    series = [
        (
            name,
            {
                row.label: ComparedPoint(row.label, row.value, row.ci_low, row.ci_high)
                for row in answer.rows
                if row.counts
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
    knob, names = _names(list(places), answers)
    threads = (
        {label: int(name) for label, name in names.items()}
        if knob is not None and knob.rpartition(".")[2] == NUM_WORKER_THREADS.name
        else {}
    )
    kept = sorted(places, key=lambda label: places[label])
    if not threads:
        leading = {reference, *_baselines(answers)}
        kept = _with_leading(kept, leading, most_rows(names.values()))
    order = sorted(kept, key=lambda label: threads[label]) if threads else kept
    objective = answers[0][1].objective
    return SideBySide(
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


def _names(
    labels: Sequence[str], answers: Sequence[tuple[str, StudyAnswer]]
) -> tuple[str | None, dict[str, str]]:
    """The one knob that differs, if it is one, and what to call the settings, by label.

    A label can be another study's for the same settings: then it is not what these are written as.
    """
    config: dict[str, Config] = {}
    for row in (row for _, answer in answers for row in answer.rows):
        found = Config.from_json(row.config)
        if row.label not in config or str(found) == row.label:
            config[row.label] = found
    knob, names = short_names([config[label] for label in labels])
    return knob, {label: names[str(config[label])] for label in labels}


def _baselines(answers: Sequence[tuple[str, StudyAnswer]]) -> set[str]:
    """The labels of the studies' baselines."""
    return {
        row.label
        for _, answer in answers
        for row in answer.rows
        if Config.from_json(row.config).resolved(answer.plan.workload)
        == answer.baseline.resolved(answer.plan.workload)
    }


def _with_leading(labels: list[str], leading: set[str], most: int) -> list[str]:
    """So many of these labels, in their order: the leading ones, and the first others."""
    others = [label for label in labels if label not in leading]
    kept = leading.union(others[: max(0, most - len(leading.intersection(labels)))])
    return [label for label in labels if label in kept]


def relative(shown: SideBySide, reference: str) -> SideBySide:
    """Each study's values as multiples of its own value of the reference, which all have."""
    label = f"{shown.value_label.rpartition(' (')[0]}\n(multiple of the reference)"
    return replace(
        shown,
        series=tuple((name, _multiples(points, reference)) for name, points in shown.series),
        reference=reference,
        value_label=label,
    )


def _multiples(points: Sequence[ComparedPoint], reference: str) -> tuple[ComparedPoint, ...]:
    unit = next(point.value for point in points if point.label == reference)
    return tuple(point.over(unit) for point in points)


def draw_comparison(shown: SideBySide, axes: Axes) -> None:
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


def comparison_figures(
    studies: Sequence[tuple[str, StudyAnswer]], reference: str
) -> list[DrawnFigure]:
    """What the same settings take in each study, and then relative to the reference.

    That is the label of settings that were measured in every study. Labels are what settings are
    known by: the same settings must have the same one in all studies.
    """
    shown = side_by_side(studies, reference)
    if shown is None:
        return []
    confidence = f"{studies[0][1].plan.measuring.confidence * 100:g} %"
    objective = studies[0][1].objective
    caption = (
        f"The {objective.label} of each settings in each study, with its {confidence} interval; "
        "lower is better."
    )
    if shown.left_out:
        caption += f" The {shown.left_out} slowest settings are left out."
    absolute = _figure(shown, "comparison", "Settings in each study", caption, objective.unit)
    title = "Settings relative to a reference"
    caption = (
        f"The same as multiples of what {reference} takes in the same study: below 1 is faster. "
        "The intervals are scaled alike, without the reference's own uncertainty."
    )
    scaled = relative(shown, reference)
    return [absolute, _figure(scaled, "comparison_relative", title, caption, "times")]


def _figure(shown: SideBySide, name: str, title: str, caption: str, unit: str) -> DrawnFigure:
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
        alt=f"By {shown.knob or 'config'}. {'; '.join(texts)}",
    )
    height = 2.7 if shown.threads else 0.75 + shown.rows.height_in
    height += 0.15 * (shown.reference is not None)
    return drawn(words, height, lambda figure: draw_comparison(shown, figure.add_subplot()))

"""Studies side by side: what the same configuration takes in each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from matplotlib.axes import Axes

from tuner.plan.config import Config
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.objectives import Objective
from tuner.present.figures.kit.axis import plain_axis, reach, threads_axis, top_of
from tuner.present.figures.kit.config_names import short_names
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import Entry, entry_names, legend_above
from tuner.present.figures.kit.row_names import Rows, most_rows
from tuner.present.figures.kit.theme import MUTED, SERIES
from tuner.present.figures.step_time import LINES, MARKERS
from tuner.study.answer import StudyAnswer
from tuner.text import UNTOLD, first_of, percent, plural, three_digits

_MOST_TOLD = 6
"""The most configurations of a study that the alternative text names."""


class ComparedPoint(NamedTuple):
    """One configuration in one study; the interval is NaN where only one world was measured."""

    config: Config
    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """A value by configuration, one series per study."""

    value_label: str
    knob: str | None
    """The only knob in which the configurations differ, if it is one."""
    names: Mapping[Config, str]
    """What the configurations shown are called, in the order in which they stand."""
    threads: Mapping[Config, int]
    """Their worker threads, where they differ in these alone; else empty."""
    series: tuple[tuple[str, tuple[ComparedPoint, ...]], ...]
    """The studies by name; points in the order of the configurations."""
    left_out: int
    reference: Config | None = None
    """The configuration that all values are compared with; None if they are absolute."""

    @property
    def rows(self) -> Rows:
        """A row per configuration, with room for each study."""
        return Rows(tuple(self.names.values()), bar_in=max(0.14, 0.11 * len(self.series)))


def side_by_side(
    answers: Sequence[tuple[str, StudyAnswer]], reference: Config
) -> SideBySide | None:
    """What the configurations of these studies took; None where nothing was measured.

    The reference and the studies' baselines are always among the configurations shown.
    """
    series = [
        (
            name,
            {
                row.config: ComparedPoint(row.config, row.value, row.ci_low, row.ci_high)
                for row in answer.rows
                if row.is_measured
            },
        )
        for name, answer in answers
    ]
    # By the best place of a configuration in any study, so that no study's fastest is left out.
    places: dict[Config, int] = {}
    for _, points in series:
        for place, config in enumerate(points):
            places[config] = min(place, places.get(config, place))
    if not places:
        return None
    knob, names = short_names(list(places))
    threads = (
        {config: int(name) for config, name in names.items()}
        if knob is not None and knob.rpartition(".")[2] == NUM_WORKER_THREADS.name
        else {}
    )
    kept = sorted(places, key=lambda config: places[config])
    if not threads:
        leading = {reference, *(answer.baseline for _, answer in answers)}
        kept = _with_leading(kept, leading, most_rows(names.values()))
    order = sorted(kept, key=lambda config: threads[config]) if threads else kept
    objective = answers[0][1].objective
    return SideBySide(
        value_label=objective.short_heading,
        knob=knob,
        names={config: names[config] for config in order},
        threads=threads,
        series=tuple(
            (name, tuple(points[config] for config in order if config in points))
            for name, points in series
        ),
        left_out=len(places) - len(order),
    )


def _with_leading(configs: list[Config], leading: set[Config], most: int) -> list[Config]:
    """So many of these configurations, in their order: the leading ones, and the first others."""
    others = [config for config in configs if config not in leading]
    kept = leading.union(others[: max(0, most - len(leading.intersection(configs)))])
    return [config for config in configs if config in kept]


def relative(
    shown: SideBySide, answers: Sequence[tuple[str, StudyAnswer]], reference: Config
) -> SideBySide:
    """How many times as fast as the reference each configuration is, within the same blocks."""
    how = "fast" if answers[0][1].objective.is_time else "good"
    return replace(
        shown,
        series=tuple((name, _ratios(answer, shown, reference)) for name, answer in answers),
        reference=reference,
        value_label=f"times as {how} as the reference",
    )


def _ratios(answer: StudyAnswer, shown: SideBySide, reference: Config) -> tuple[ComparedPoint, ...]:
    """The ratios that are known well enough, in the order of the configurations shown."""
    trials = {row.config: row.trial for row in answer.rows if row.is_measured}
    points = []
    for config in shown.names:
        if config not in trials:
            continue
        found = answer.paired.compare(trials[config], trials[reference])
        if found is not None and found.ratio.is_told:
            ratio = found.ratio
            points.append(ComparedPoint(config, ratio.estimate, ratio.low, ratio.high))
    return tuple(points)


def draw_comparison(shown: SideBySide, axes: Axes) -> None:
    """A line per study over the threads, or a row per configuration with a mark for each study."""
    rows = shown.rows
    places = dict(zip(shown.names, rows.at, strict=True))
    along = bool(shown.threads)
    handles: list[Entry] = []
    top = top_of([point for _, points in shown.series for point in points])
    if shown.reference is not None:
        (axes.axhline if along else axes.axvline)(1.0, color=MUTED.light, linewidth=1.0, zorder=1)
    entries = entry_names(name for name, _ in shown.series)
    for number, (name, points) in enumerate(shown.series):
        offset = (number + 0.5) / len(shown.series) - 0.5
        at = [
            shown.threads[point.config] if along else places[point.config] + rows.bar_in * offset
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
            label=entries[name],
        )
        handles.append(line)
    _draw_axes(shown, top, axes)
    lines = 0.3 if along else rows.heading_lines(shown.knob)
    legend_above(axes, handles, lines_between=lines)


def _draw_axes(shown: SideBySide, top: float, axes: Axes) -> None:
    if shown.threads:
        plain_axis(axes, "y", 6)
        axes.set_ylim(0, top)
        axes.set_ylabel(shown.value_label)
        threads_axis(axes, "x", shown.threads.values())
        axes.set_xlabel(str(shown.knob))
    else:
        plain_axis(axes, "x", 6)
        axes.set_xlim(0, top)
        axes.set_xlabel(shown.value_label)
        shown.rows.draw(axes, shown.knob)


def comparison_figures(
    studies: Sequence[tuple[str, StudyAnswer]], reference: Config
) -> list[DrawnFigure]:
    """What each configuration takes in each study, and how it compares with a reference there.

    Args:
        studies: The studies by name; configurations that act alike must be equal in all of them.
        reference: A configuration that was measured in every study.
    """
    shown = side_by_side(studies, reference)
    if shown is None:
        return []
    confidence = percent(studies[0][1].plan.measuring.confidence)
    objective = studies[0][1].objective
    caption = (
        f"The {objective.label} of each configuration in each study, with its {confidence} "
        f"interval; {objective.better}."
    )
    if shown.left_out:
        caption += f" Left out: {plural(shown.left_out, 'configuration')} that are worse."
    absolute = _figure(shown, "comparison", "Configurations in each study", caption, objective)
    scaled = relative(shown, studies, reference)
    if not any(points for _, points in scaled.series):
        return [absolute]
    title = "Configurations against a reference"
    caption = (
        f"How many times as {'fast' if objective.is_time else 'good'} each configuration is as "
        f"{reference} in the same study: above 1 is better. From the blocks that measured both, "
        f"with {confidence} intervals; what is {UNTOLD} is left out."
    )
    return [absolute, _figure(scaled, "comparison_relative", title, caption, objective)]


def _figure(
    shown: SideBySide, name: str, title: str, caption: str, objective: Objective
) -> DrawnFigure:
    ratios = shown.reference is not None
    texts = []
    for study, points in shown.series:
        values = [
            f"{shown.names[point.config]} {three_digits(point.value)} "
            f"{'times' if ratios else objective.unit}"
            for point in sorted(
                points, key=lambda p: -p.value if ratios else objective.cost(p.value)
            )
        ]
        told = first_of(values, _MOST_TOLD, rest="that are worse") or "nothing measured"
        texts.append(f"{study}: {told}")
    words = Words(
        name=name,
        title=title,
        caption=caption,
        alt=f"By {shown.knob or 'configuration'}. {'; '.join(texts)}",
    )
    height = 2.7 if shown.threads else 0.75 + shown.rows.height_in
    height += 0.15 * (shown.reference is not None)
    return drawn(words, height, lambda figure: draw_comparison(shown, figure.add_subplot()))

"""Studies side by side: what the same configuration takes in each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes

from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.objectives import Objective
from tuner.present.configurations import short_names
from tuner.present.figures.kit.axis import plain_axis, reach, threads_axis, top_of
from tuner.present.figures.kit.canvas import DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import Entry, Rows, entry_names, legend_above, with_room
from tuner.present.figures.kit.theme import LINES, MARKERS, MUTED, SERIES
from tuner.present.studies_compared import Comparison, measured_in
from tuner.present.wording import confidence, fast
from tuner.text import UNTOLD, first_of, plural, three_digits

_MOST_TOLD = 6
"""The most configurations of a study that the alternative text names."""


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """A value by configuration, one series per study."""

    value_label: str
    knob: str | None
    """The only knob in which the configurations differ, if it is one."""
    names: Mapping[Config, str]
    """What the configurations shown are called, in the order in which they stand."""
    series: Sequence[tuple[str, Mapping[Config, Interval]]]
    """The studies by name; an interval is NaN where only one world was measured."""
    left_out: int
    reference: Config | None = None
    """The configuration that all values are compared with; None if they are absolute."""

    @property
    def threads(self) -> dict[Config, int]:
        """The worker threads of the configurations, where they differ in these alone."""
        return _threads(self.knob, self.names)

    @property
    def rows(self) -> Rows:
        """A row per configuration, with room for each study."""
        return Rows(tuple(self.names.values()), bar_in=max(0.14, 0.11 * len(self.series)))


def _threads(knob: str | None, names: Mapping[Config, str]) -> dict[Config, int]:
    is_threads = knob is not None and knob.rpartition(".")[2] == NUM_WORKER_THREADS.name
    return {config: int(name) for config, name in names.items()} if is_threads else {}


def side_by_side(comparison: Comparison) -> SideBySide | None:
    """What the configurations of the studies took, their baselines among them; None if nothing."""
    studies = comparison.studies
    rows = [measured_in(answer) for _, answer in studies]
    # By the best place of a configuration in any study, so that no study's fastest is left out.
    places: dict[Config, int] = {}
    for found in rows:
        for place, config in enumerate(found):
            places[config] = min(place, places.get(config, place))
    if not places:
        return None
    knob, names = short_names(list(places))
    if threads := _threads(knob, names):
        shown = sorted(places, key=lambda config: threads[config])
    else:
        best_first = {config: names[config] for config in sorted(places, key=places.__getitem__)}
        shown = with_room(
            best_first, {comparison.reference, *(answer.baseline for _, answer in studies)}
        )
    return SideBySide(
        value_label=studies[0][1].objective.short_heading,
        knob=knob,
        names={config: names[config] for config in shown},
        series=[
            (
                name,
                {
                    config: Interval(row.value, row.ci_low, row.ci_high)
                    for config in shown
                    if (row := found.get(config))
                },
            )
            for (name, _), found in zip(studies, rows, strict=True)
        ],
        left_out=len(places) - len(shown),
    )


def relative(shown: SideBySide, comparison: Comparison) -> SideBySide:
    """How many times as fast as the reference each configuration is, where that is known."""
    series = []
    for name, answer in comparison.studies:
        ratios = {config: comparison.ratio(answer, config) for config in shown.names}
        told = {config: ratio for config, ratio in ratios.items() if ratio and ratio.is_told}
        series.append((name, told))
    label = f"times as {fast(comparison.studies[0][1])} as the reference"
    return replace(shown, series=series, reference=comparison.reference, value_label=label)


def draw_comparison(shown: SideBySide, axes: Axes) -> None:
    """A line per study over the threads, or a row per configuration with a mark for each study."""
    rows, threads = shown.rows, shown.threads
    places = dict(zip(shown.names, rows.at, strict=True))
    handles: list[Entry] = []
    top = top_of([value for _, values in shown.series for value in values.values()])
    if shown.reference is not None:
        (axes.axhline if threads else axes.axvline)(1.0, color=MUTED.light, linewidth=1.0, zorder=1)
    entries = entry_names(name for name, _ in shown.series)
    for number, (name, found) in enumerate(shown.series):
        offset = rows.bar_in * ((number + 0.5) / len(shown.series) - 0.5)
        at = [threads[config] if threads else places[config] + offset for config in found]
        values, spread = [ratio.estimate for ratio in found.values()], reach([*found.values()], top)
        x, y = (at, values) if threads else (values, at)
        line = axes.errorbar(
            x, y, xerr=None if threads else spread,
            yerr=spread if threads else None, marker=MARKERS[number % len(MARKERS)], markersize=5,
            color=SERIES[number % len(SERIES)].light,
            linestyle=LINES[number % len(LINES)] if threads else "none",
            linewidth=1.2, capsize=3, label=entries[name],
        )  # fmt: skip
        handles.append(line)
    if threads:
        plain_axis(axes, "y", 6)
        axes.set_ylim(0, top)
        axes.set_ylabel(shown.value_label)
        threads_axis(axes, "x", threads.values())
        axes.set_xlabel(str(shown.knob))
        legend_above(axes, handles)
    else:
        plain_axis(axes, "x", 6)
        axes.set_xlim(0, top)
        axes.set_xlabel(shown.value_label)
        rows.draw(axes, shown.knob)
        legend_above(axes, handles, lines_between=rows.heading_lines(shown.knob))


def comparison_figures(comparison: Comparison) -> list[DrawnFigure]:
    """What each configuration takes in each study, and how it compares with a reference there."""
    shown = side_by_side(comparison)
    if shown is None:
        return []
    first = comparison.studies[0][1]
    objective = first.objective
    caption = (
        f"The {objective.label} of each configuration in each study, with its {confidence(first)} "
        f"interval; {objective.better}."
    )
    if shown.left_out:
        caption += f" Left out: {plural(shown.left_out, 'configuration')} that are worse."
    absolute = _figure(shown, "comparison", "Configurations in each study", caption, objective)
    scaled = relative(shown, comparison)
    if not any(values for _, values in scaled.series):
        return [absolute]
    title = "Configurations against a reference"
    caption = (
        f"How many times as {fast(first)} each configuration is as {comparison.reference} in the "
        "same study: above 1 is better. From the blocks that measured both, with "
        f"{confidence(first)} intervals; what is {UNTOLD} is left out."
    )
    return [absolute, _figure(scaled, "comparison_relative", title, caption, objective)]


def _figure(
    shown: SideBySide, name: str, title: str, caption: str, objective: Objective
) -> DrawnFigure:
    ratios = shown.reference is not None
    texts, unit = [], "times" if ratios else objective.unit
    for study, found in shown.series:
        values = {config: ratio.estimate for config, ratio in found.items()}
        best_first = sorted(
            values, key=lambda c: -values[c] if ratios else objective.cost(values[c])
        )
        each = [f"{shown.names[c]} {three_digits(values[c])} {unit}" for c in best_first]
        told = first_of(each, _MOST_TOLD, rest="that are worse") or "nothing measured"
        texts.append(f"{study}: {told}")
    height = 2.7 if shown.threads else 0.75 + shown.rows.height_in
    return drawn(
        lambda figure: draw_comparison(shown, figure.add_subplot()),
        height + 0.15 * ratios,
        name=name,
        title=title,
        caption=caption,
        alt=f"By {shown.knob or 'configuration'}. {'; '.join(texts)}",
    )

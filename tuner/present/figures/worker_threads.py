"""The figures over worker threads: the parallelism of servers, and what was forecast."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.axes import Axes

from tuner.decide.statistics import Interval
from tuner.plan.config import Config, varying
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.present.configurations import threads_dimension
from tuner.present.figures.kit.axis import margin_of, plain_log_axis, threads_axis
from tuner.present.figures.kit.canvas import DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import legend_above
from tuner.present.figures.kit.theme import LOOKS, MUTED, OTHER, SERIES
from tuner.present.wording import fast, interval_cell
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.metrics import PARALLELISM_MAX, PARALLELISM_MEAN
from tuner.text import plural, three_digits

_SAME = Interval(1.0, 1.0, 1.0)


class ParallelismPoint(NamedTuple):
    """The parallelism in the trace of one configuration."""

    threads: int
    mean: float
    maximum: float
    """NaN where it is not known."""


class Parallelism(NamedTuple):
    """The parallelism by number of worker threads, few threads first."""

    x_label: str
    points: list[ParallelismPoint]
    logical_cpus: int


def parallelism(answer: StudyAnswer) -> Parallelism | None:
    """What the traces tell; None where all traced configurations have as many threads."""
    dimension = threads_dimension(answer)
    if dimension is None:
        return None
    points = []
    for row in answer.rows:
        if row.is_measured and PARALLELISM_MEAN.name in row.metrics:
            threads = int(str(row.config.value_of(dimension, answer.plan.subject)))
            numbers = row.metric(PARALLELISM_MEAN), row.metric(PARALLELISM_MAX)
            points.append(ParallelismPoint(threads, *numbers))
    if len({point.threads for point in points}) < 2:
        return None
    return Parallelism(str(dimension), sorted(points), answer.environment.cpu_count)


def draw_parallelism(shown: Parallelism, axes: Axes) -> None:
    """Mean and maximum, beside the line of one call per thread and that of the logical CPUs."""
    threads, means, maxima = zip(*shown.points, strict=True)
    # A line can join them where each number of threads occurs once.
    dotted, solid = (":", "-") if len(set(threads)) == len(threads) else ("none", "none")
    axes.plot(
        threads, maxima, marker="^", markersize=6, markerfacecolor="none", linestyle=dotted,
        linewidth=1.0, color=OTHER.light, label="maximum",
    )  # fmt: skip
    axes.plot(
        threads, means, marker="o", markersize=5, linestyle=solid, color=SERIES[0].light,
        label="mean", zorder=4,
    )  # fmt: skip
    ends = [min(threads), max(threads)]
    axes.plot(ends, ends, color=MUTED.light, linestyle="--", linewidth=1.0, label="one per thread")
    axes.axhline(
        shown.logical_cpus, color=SERIES[2].light, linestyle="-.", linewidth=1.2,
        label=plural(shown.logical_cpus, "logical CPU"),
    )  # fmt: skip
    highest = max([shown.logical_cpus, *threads, *(each for each in maxima if each > 0)])
    lowest = min([1.0, *(mean for mean in means if mean > 0)])
    threads_axis(axes, "x", threads)
    threads_axis(axes, "y", [2.0**power for power in range(math.ceil(math.log2(highest)) + 1)])
    axes.set_ylim(lowest / 1.2, highest * 1.25)
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel("parallelism")
    legend_above(axes, axes.get_legend_handles_labels()[0], columns=2)


def parallelism_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The parallelism with words; None where there is nothing to show."""
    shown = parallelism(answer)
    if shown is None:
        return None
    means: dict[int, list[float]] = {}
    for point in shown.points:
        means.setdefault(point.threads, []).append(point.mean)
    numbers = ", ".join(
        f"{' to '.join(dict.fromkeys(map(three_digits, (min(found), max(found)))))} on "
        f"{plural(threads, 'thread')}"
        for threads, found in means.items()
    )
    return drawn(
        lambda figure: draw_parallelism(shown, figure.add_subplot()),
        2.8,
        name="parallelism",
        title="Parallelism",
        caption=(
            "The calls that all servers together ran at once in the trace of each configuration: "
            "the mean while any ran, and the maximum. On the dashed line each thread of one server "
            "would always run a call. A parallelism above the number of logical CPUs makes calls "
            "faster only where they wait for something else."
        ),
        alt=f"Mean parallelism by {shown.x_label}: {numbers}; "
        f"the machine has {plural(shown.logical_cpus, 'logical CPU')}.",
    )


class ForecastCurve(NamedTuple):
    """How many times as fast as the baseline, by worker threads, few threads first."""

    x_label: str
    y_label: str
    traced: int  # the baseline's threads
    forecast: Mapping[int, Interval]  # the baseline's own included
    measured: Mapping[int, Interval]  # where nothing but the threads differs from the baseline


def forecast_curve(answer: StudyAnswer) -> ForecastCurve | None:
    """What was forecast; None where nothing was, or where roles have threads of their own."""
    subject, base = answer.plan.subject, answer.by_trial[BASELINE].config
    varied = varying([*(row.config for row in answer.rows), *answer.forecasts_alone], subject)
    threads = [dimension for dimension in varied if dimension.knob == NUM_WORKER_THREADS.name]
    if len(threads) != 1:
        return None

    def number_of(config: Config) -> int:
        return int(str(config.value_of(threads[0], subject)))

    def is_of_threads(config: Config) -> bool:
        return answer.plan.changed_by(config) == {NUM_WORKER_THREADS.name}

    found = [(row.config, row.forecast) for row in answer.rows if row.forecast is not None]
    forecast = {
        number_of(config): each.speedup
        for config, each in (*found, *answer.forecasts_alone.items())
        if each.speedup is not None and is_of_threads(config)
    }
    measured = dict[int, Interval]()
    for row in answer.rows:
        paired = row.against_baseline
        if is_of_threads(row.config) and paired is not None and paired.ratio.is_told:
            measured[number_of(row.config)] = paired.ratio
    if not forecast:
        return None
    traced = number_of(base)
    return ForecastCurve(
        str(threads[0]), f"times as {fast(answer)}", traced,
        dict(sorted({**forecast, traced: _SAME}.items())), dict(sorted(measured.items())),
    )  # fmt: skip


def draw_forecast_curve(shown: ForecastCurve, axes: Axes) -> None:
    """The forecast as a line in a band, what was measured as points with intervals."""
    numbers, found = [*shown.forecast], [*shown.forecast.values()]
    blue, look = SERIES[0].light, LOOKS["baseline"]
    axes.fill_between(
        numbers, [speedup.low for speedup in found], [speedup.high for speedup in found],
        color=blue, alpha=0.2, linewidth=0,
    )  # fmt: skip
    axes.plot(numbers, [speedup.estimate for speedup in found], color=blue, label="forecast")
    for number, each in shown.measured.items():
        axes.errorbar(
            number, each.estimate, yerr=[[each.estimate - each.low], [each.high - each.estimate]],
            color=SERIES[1].light, marker="o", markersize=5, linewidth=1.2, capsize=3, zorder=5,
            label="measured" if number == next(iter(shown.measured)) else None,
        )  # fmt: skip
    axes.plot(
        shown.traced, 1.0, marker=look.marker, markersize=6, linestyle="none", zorder=6,
        color=look.colour.light, markerfacecolor=look.fill, label="baseline, traced",
    )  # fmt: skip
    ends = [end for each in (*found, *shown.measured.values()) for end in (each.low, each.high)]
    margin = margin_of(min(ends), max(ends))
    plain_log_axis(axes, "y", min(ends) / margin, max(ends) * margin)
    threads_axis(axes, "x", [*numbers, *shown.measured])
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel(shown.y_label)
    legend_above(axes, axes.get_legend_handles_labels()[0], columns=3)


def forecast_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The curve with words; None where there is none."""
    shown = forecast_curve(answer)
    if shown is None:
        return None
    texts = []
    for number, each in shown.forecast.items():
        if number != shown.traced:
            told = f"{plural(number, 'thread')}: forecast {interval_cell(each)}"
            seen = shown.measured.get(number)
            texts.append(f"{told}, measured {interval_cell(seen)}" if seen else told)
    return drawn(
        lambda figure: draw_forecast_curve(shown, figure.add_subplot()),
        2.8,
        name="forecast",
        title="Forecast and measured",
        caption=(
            "What the baseline's trace told of other numbers of threads before any was measured, "
            "with its interval, and what was measured. The forecast set the order of measuring, "
            "and decided nothing."
        ),
        alt="; ".join(texts),
    )

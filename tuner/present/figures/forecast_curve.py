"""The figure of what the baseline's trace told of other threads, beside what was measured."""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.axes import Axes

from tuner.decide.statistics import Interval
from tuner.plan.config import Config, varying
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.present.figures.kit.axis import margin_of, plain_log_axis, threads_axis
from tuner.present.figures.kit.canvas import DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import legend_above
from tuner.present.figures.kit.theme import LOOKS, SERIES
from tuner.present.wording import fast, interval_cell
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.text import plural

_SAME = Interval(1.0, 1.0, 1.0)


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
    threads = [each for each in varied if each.knob == NUM_WORKER_THREADS.name]
    if len(threads) != 1:
        return None

    def number_of(config: Config) -> int:
        return int(str(config.value_of(threads[0], subject)))

    found = [(row.config, row.forecast) for row in answer.rows if row.forecast is not None]
    forecast = {
        number_of(config): each.speedup
        for config, each in (*found, *answer.forecasts_alone.items())
        if each.speedup is not None
    }
    measured = dict[int, Interval]()
    for row in answer.rows:
        paired, is_of_threads = row.against_baseline, answer.plan.changes_threads_alone(row.config)
        if is_of_threads and paired is not None and paired.ratio.is_told:
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
        numbers, [each.low for each in found], [each.high for each in found],
        color=blue, alpha=0.2, linewidth=0,
    )  # fmt: skip
    axes.plot(numbers, [each.estimate for each in found], color=blue, label="forecast")
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

"""The figure of what changes of a program's code would do: a bar for each, with its interval; and
the curve of more callers."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tuner.decide.statistics import Interval
from tuner.present.changes import of_callers
from tuner.present.figures.kit.axis import plain_axis, plain_log_axis
from tuner.present.figures.kit.canvas import DrawnFigure, canvas, drawn
from tuner.present.figures.kit.named_rows import Rows, with_room
from tuner.present.figures.kit.theme import MUTED, OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.study.records import ForecastChange
from tuner.text import ratio_cell
from tuner.trace.forecast.by_callers import ByCallers
from tuner.trace.forecast.change import GAIN
from tuner.trace.forecast.ranked import ChangeRow

_ROOM_IN = 0.75  # inches of the axis and its label
_CURVE_IN = 2.4
_MARGIN = 1.08


class Bars(NamedTuple):
    """How many times as fast a program is after each change, the best first."""

    names: Sequence[str]
    times: Sequence[Interval]

    @classmethod
    def of(cls, found: Sequence[tuple[str, Interval]]) -> "Bars | None":
        """As many as there is room for; None without any."""
        known = dict(found)
        kept = with_room({name: name for name in known}, ())
        return cls(kept, [known[name] for name in kept]) if kept else None

    @property
    def rows(self) -> Rows:
        """Their rows."""
        return Rows(tuple(self.names), leading=tuple(gain.low > 1 / GAIN for gain in self.times))

    def draw(self, axes: Axes) -> None:
        """Bars from 1, in colour where the whole interval is a gain."""
        rows = self.rows
        for at, gain in zip(rows.at, self.times, strict=True):
            colour = (SERIES[0] if gain.low > 1 / GAIN else OTHER).light
            axes.barh(at, gain.estimate - 1, rows.bar_in, left=1.0, color=colour, alpha=0.55)
            axes.plot([gain.low, gain.high], [at, at], color=colour, linewidth=1.4, zorder=4)
            axes.plot(gain.estimate, at, marker="|", color=colour, markersize=7, zorder=5)
        axes.axvline(1.0, color=MUTED.light, linewidth=1.0, zorder=1)
        ends = [1.0, *(end for gain in self.times for end in (gain.low, gain.high))]
        plain_log_axis(axes, "x", min(ends) / _MARGIN, max(ends) * _MARGIN)
        rows.draw(axes, None)
        axes.set_xlabel("times as fast (forecast)")


def changes_figures(answer: StudyAnswer) -> list[DrawnFigure]:
    """The bars, and the curve of more callers, with words; those that the trace of what is
    recommended tells of."""
    found = []
    if bars := Bars.of([(change.text, change.times) for change in answer.changes]):
        texts = [
            f"{name}: {ratio_cell(gain.estimate, gain.low, gain.high)}"
            for name, gain in zip(bars.names, bars.times, strict=True)
        ]
        found.append(drawn(
            lambda figure: bars.draw(figure.add_subplot()),
            _ROOM_IN + bars.rows.height_in,
            name="changes",
            title="Changes of the code",
            caption=(
                "How many times as fast the program would be after a change of its code: a "
                "forecast from one trace, with its interval. Grey bars may gain nothing."
            ),
            alt="; ".join(texts),
        ))  # fmt: skip
    if said := of_callers(answer.callers):
        found.append(drawn(
            lambda figure: draw_callers(answer.callers, figure.add_subplot()),
            _CURVE_IN,
            name="callers",
            title="More callers",
            caption=(
                "How many calls would be served in the same time: a forecast from one trace, with "
                f"its interval. {said[0]}"
            ),
            alt=said[0],
        ))  # fmt: skip
    return found


def write_changes_figure(
    found: Sequence[ChangeRow], callers: Sequence[ByCallers], path: Path
) -> None:
    """Draw the changes of a trace to a file, and below them the curve of more callers, if there are
    any."""
    bars = Bars.of([(change.text, change.times) for change in map(ForecastChange.of, found)])
    heights = [_ROOM_IN + bars.rows.height_in] if bars else []
    heights += [_CURVE_IN] * bool(callers)
    if not heights:
        return
    with canvas((7.0, sum(heights)), path) as figure:
        places = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        if bars is not None:
            bars.draw(figure.add_subplot(places[0]))
        if callers:
            draw_callers(callers, figure.add_subplot(places[-1]))


def draw_callers(callers: Sequence[ByCallers], axes: Axes) -> None:
    """How many calls are served in the same time, and from where on no more are."""
    numbers = [point.callers for point in callers]
    middle, low, high = zip(*(point.throughput for point in callers), strict=True)
    colour = SERIES[0].light
    axes.fill_between(numbers, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(numbers, middle, marker="o", markersize=4, color=colour, linewidth=1.4)
    full = next((point for point in callers if point.is_full), None)
    if full is not None:
        axes.axvline(full.callers, color=MUTED.light, linewidth=1.0, zorder=1)
        said = f"full at {full.callers}" + (f": {full.limit}" if full.limit else "")
        axes.annotate(said, (full.callers, 0), xytext=(4, 6), textcoords="offset points",
                      color=MUTED.light, fontsize="small")  # fmt: skip
    axes.set_ylim(0, max(high) * _MARGIN)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    plain_axis(axes, "y", 5)
    axes.set_xlabel("callers")
    axes.set_ylabel("calls in the same time\n(times, forecast)")

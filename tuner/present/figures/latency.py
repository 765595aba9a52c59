"""The figure of how the times of steps and of calls are distributed."""

from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tuner.present.figures.kit.axis import margin_of, plain_log_axis
from tuner.present.figures.kit.config_names import ConfigNames, names_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import legend_below
from tuner.present.figures.kit.plane import LOOKS
from tuner.present.figures.kit.row_names import Rows, left_out, shown_rows
from tuner.present.figures.kit.theme import INK, MUTED, OTHER, PAPER
from tuner.study.answer import Contender, StudyAnswer
from tuner.study.rows import TrialDetail
from tuner.text import three_digits
from tuner.world.measurement import Quantiles

_NOTHING = TrialDetail()


class LatencyRow(NamedTuple):
    """One configuration: how long its steps took, and its calls where a trace tells."""

    trial: int
    contender: Contender | None
    step_ms: Quantiles | None
    call_ms: Quantiles | None


@dataclass(frozen=True, kw_only=True)
class Latency:
    """The configurations to show, the fastest first."""

    rows: tuple[LatencyRow, ...]
    known: int
    """Of how many measured configurations the quantiles are known."""

    @property
    def panels(self) -> dict[str, list[Quantiles | None]]:
        """A panel for the steps and one for the calls, whichever has something to show."""
        found = {
            "time of a step (ms)": [row.step_ms for row in self.rows],
            "time of a call, traced (ms)": [row.call_ms for row in self.rows],
        }
        return {title: each for title, each in found.items() if any(each)}


def latency(answer: StudyAnswer) -> Latency | None:
    """The quantiles of the fastest configurations; None where none are known."""
    names = names_of(answer)

    def detail(trial: int) -> TrialDetail:
        return answer.details.get(trial, _NOTHING)

    known = [
        row
        for row in answer.rows
        if row.is_measured and (detail(row.trial).step_ms or detail(row.trial).call_ms)
    ]
    if not known:
        return None
    rows = tuple(
        LatencyRow(
            row.trial, names.contenders.get(row.trial), detail(row.trial).step_ms,
            detail(row.trial).call_ms,
        )
        for row in shown_rows(names, known)
    )  # fmt: skip
    return Latency(rows=rows, known=len(known))


def draw_latency(shown: Latency, names: ConfigNames, figure: Figure) -> None:
    """A row per configuration: thin from p5 to p95, thick from p25 to p75, marks at p50 and p99."""
    rows = Rows(tuple(names.row_name(row.trial) for row in shown.rows))
    bold = [place for place, row in enumerate(shown.rows) if row.contender]
    panels = shown.panels
    first: Axes | None = None
    for number, (title, quantiles) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), number)
        _draw_panel(quantiles, shown, rows.at, 6 // len(panels), axes)
        if first is None:
            first = axes
            rows.draw(axes, names.knob, bold)
        else:
            axes.set_ylim(first.get_ylim())
            axes.set_yticks([])
            axes.spines["left"].set_visible(not rows.above)
        axes.set_xlabel(title, fontsize=9)
    legend_below(figure, _legend(), 4)


def _draw_panel(
    quantiles: list[Quantiles | None],
    shown: Latency,
    places: list[float],
    ticks: int,
    axes: Axes,
) -> None:
    known = [each for each in quantiles if each]
    contenders = [row.contender for row in shown.rows]
    low, high = min(each.p5 for each in known), max(max(each.p99, each.p95) for each in known)
    low = max(low, 1e-9)
    margin = margin_of(low, high)
    plain_log_axis(axes, "x", low / margin, high * margin, ticks)
    for place, each, contender in zip(places, quantiles, contenders, strict=True):
        if each is None:
            continue
        colour = (LOOKS[contender].colour if contender else OTHER).light
        axes.hlines(place, each.p5, each.p95, color=colour, linewidth=1.2)
        axes.hlines(place, each.p25, each.p75, color=colour, linewidth=6)
        axes.plot(
            each.p50, place, marker="o", markersize=5, color=PAPER.light,
            markeredgecolor=INK.light, zorder=4,
        )  # fmt: skip
        axes.plot(each.p99, place, marker="x", markersize=5, color=colour, zorder=4)


def _legend() -> list[Line2D]:
    colour, edge = MUTED.light, INK.light
    return [
        Line2D([], [], color=colour, linewidth=1.2, label="5-95 %"),
        Line2D([], [], color=colour, linewidth=6, label="25-75 %"),
        Line2D([], [], linestyle="none", marker="o", markersize=5, color=PAPER.light,
               markeredgecolor=edge, label="median"),
        Line2D([], [], linestyle="none", marker="x", markersize=5, color=colour,
               label="99th percentile"),
    ]  # fmt: skip


def latency_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The distributions of times with words; None where none is known."""
    shown = latency(answer)
    if shown is None:
        return None
    names = names_of(answer)
    texts = [
        f"{names.row_name(row.trial)} median step {three_digits(row.step_ms.p50)} ms, "
        f"99th percentile {three_digits(row.step_ms.p99)} ms"
        for row in shown.rows
        if row.step_ms and (row.contender or len(shown.rows) <= 8)
    ]
    words = Words(
        name="latency",
        title="How the times are distributed",
        caption=(
            f"{_what(shown)}, on a log scale: the thick line covers the middle half, the thin one "
            "90 %." + left_out(len(shown.rows), shown.known)
        ),
        alt=f"Times {names.by}: {'; '.join(texts)}"
        if texts
        else "The times of the calls of each configuration.",
    )
    rows = Rows(tuple(names.row_name(row.trial) for row in shown.rows))
    return drawn(words, 0.75 + rows.height_in, lambda figure: draw_latency(shown, names, figure))


def _what(shown: Latency) -> str:
    """What is drawn of each configuration: a program has no steps."""
    steps = "All timed steps of all worlds of each configuration"
    if not any(row.call_ms for row in shown.rows):
        return steps
    if not any(row.step_ms for row in shown.rows):
        return "The calls in the trace of each configuration"
    return f"{steps}, and the calls of its trace"

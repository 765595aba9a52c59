"""The figures of a row per configuration: how times are distributed, where that of a call goes."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tuner.present.configurations import ConfigNames, names_of
from tuner.present.figures.kit import theme
from tuner.present.figures.kit.axis import margin_of, plain_log_axis
from tuner.present.figures.kit.canvas import DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import Entry, left_out, legend_below, rows_of, shown_rows
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialDetail, TrialRow
from tuner.text import three_digits
from tuner.world.measurement import CallPart, Quantiles


def _known(answer: StudyAnswer, is_known: Callable[[TrialDetail], object]) -> list[TrialRow]:
    """The rows of the measured configurations of whose details enough is known."""
    details, nothing = answer.details, TrialDetail()
    return [
        row for row in answer.rows if row.is_measured and is_known(details.get(row.trial, nothing))
    ]


class Latency(NamedTuple):
    """How long steps and calls took in the configurations to show, the fastest first."""

    details: Mapping[int, TrialDetail]
    """By trial."""
    known: int
    """Of how many measured configurations the quantiles are known."""

    @property
    def panels(self) -> dict[str, dict[int, Quantiles]]:
        """A panel for the steps and one for the calls, whichever has something to show."""
        items = self.details.items()
        found = {
            "time of a step (ms)": {trial: each.step_ms for trial, each in items if each.step_ms},
            "time of a call, traced (ms)": {
                trial: detail.call_ms for trial, detail in items if detail.call_ms
            },
        }
        return {title: panel for title, panel in found.items() if panel}


def latency(answer: StudyAnswer) -> Latency | None:
    """The quantiles of the fastest configurations; None where none are known."""
    known = _known(answer, lambda detail: detail.step_ms or detail.call_ms)
    shown = {row.trial: answer.details[row.trial] for row in shown_rows(names_of(answer), known)}
    return Latency(shown, len(known)) if known else None


def draw_latency(shown: Latency, names: ConfigNames, figure: Figure) -> None:
    """A row per configuration: thin from p5 to p95, thick from p25 to p75, marks at p50 and p99."""
    rows, panels = rows_of(names, shown.details), shown.panels
    places = dict(zip(shown.details, rows.at, strict=True))
    for number, (title, quantiles) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), number)
        _draw_panel(quantiles, places, names, 6 // len(panels), axes)
        if number == 1:
            rows.draw(axes, names.knob)
        else:
            axes.set_ylim(figure.axes[0].get_ylim())
            axes.set_yticks([])
            axes.spines["left"].set_visible(not rows.above)
        axes.set_xlabel(title, fontsize=9)
    colour, edge = theme.MUTED.light, theme.INK.light
    handles = [
        Line2D([], [], color=colour, linewidth=1.2, label="5-95 %"),
        Line2D([], [], color=colour, linewidth=6, label="25-75 %"),
        Line2D([], [], linestyle="none", marker="o", markersize=5, color=theme.PAPER.light,
               markeredgecolor=edge, label="median"),
        Line2D([], [], linestyle="none", marker="x", markersize=5, color=colour,
               label="99th percentile"),
    ]  # fmt: skip
    legend_below(figure, handles, 4)


def _draw_panel(
    quantiles: Mapping[int, Quantiles],
    places: Mapping[int, float],
    names: ConfigNames,
    ticks: int,
    axes: Axes,
) -> None:
    low = max(min(spread.p5 for spread in quantiles.values()), 1e-9)
    high = max(max(spread.p99, spread.p95) for spread in quantiles.values())
    margin = margin_of(low, high)
    plain_log_axis(axes, "x", low / margin, high * margin, ticks)
    for trial, spread in quantiles.items():
        contender, at = names.contenders.get(trial), places[trial]
        colour = (theme.LOOKS[contender].colour if contender else theme.OTHER).light
        axes.hlines(at, spread.p5, spread.p95, color=colour, linewidth=1.2)
        axes.hlines(at, spread.p25, spread.p75, color=colour, linewidth=6)
        axes.plot(
            spread.p50, at, marker="o", markersize=5, color=theme.PAPER.light, zorder=4,
            markeredgecolor=theme.INK.light,
        )  # fmt: skip
        axes.plot(spread.p99, at, marker="x", markersize=5, color=colour, zorder=4)


def latency_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The distributions of times with words; None where none is known."""
    shown = latency(answer)
    if shown is None:
        return None
    names = names_of(answer)
    texts = [
        f"{names.row_name(trial)} median step {three_digits(detail.step_ms.p50)} ms, "
        f"99th percentile {three_digits(detail.step_ms.p99)} ms"
        for trial, detail in shown.details.items()
        if detail.step_ms and (trial in names.contenders or len(shown.details) <= 8)
    ]
    # A program has no steps.
    what = "All timed steps of all worlds of each configuration"
    if not any(detail.step_ms for detail in shown.details.values()):
        what = "The calls in the trace of each configuration"
    elif any(detail.call_ms for detail in shown.details.values()):
        what += ", and the calls of its trace"
    return drawn(
        lambda figure: draw_latency(shown, names, figure),
        0.75 + rows_of(names, shown.details).height_in,
        name="latency",
        title="How the times are distributed",
        caption=(
            f"{what}, on a log scale: the thick line covers the middle half, the thin one 90 %."
            + left_out(len(shown.details), shown.known)
        ),
        alt=f"Times {names.by}: {'; '.join(texts)}"
        if texts
        else "The times of the calls of each configuration.",
    )


PARTS: Mapping[CallPart, tuple[str, theme.Colour, str | None]] = {
    "transport": ("transport", theme.TRANSPORT, "//"),
    "queue": ("queue", theme.QUEUE, ".."),
    "on_cpu": ("on CPU", theme.ON_CPU, None),
    "run_queue": ("run queue", theme.RUN_QUEUE, "xx"),
    "off_cpu": ("off CPU", theme.OFF_CPU, None),
    "served": ("served", theme.SERVED, None),
    "pending": ("pending", theme.PENDING, "\\\\"),
}
"""What each part is called, its colour, and the hatch that tells it apart in grey."""


class CallTime(NamedTuple):
    """The parts of the calls of the configurations to show, the fastest first."""

    parts_ms: Mapping[int, Mapping[CallPart, float]]
    """By trial, in the order of `PARTS`, in milliseconds."""
    known: int
    """Of how many measured configurations the parts are known."""


def call_time(answer: StudyAnswer) -> CallTime | None:
    """The parts of the fastest configurations; None where no trace tells."""
    known = _known(answer, lambda detail: any(detail.call_parts_ms.values()))
    shown = {}
    for row in shown_rows(names_of(answer), known):
        parts_ms = answer.details[row.trial].call_parts_ms
        shown[row.trial] = {part: parts_ms[part] for part in PARTS if parts_ms.get(part)}
    return CallTime(shown, len(known)) if known else None


def draw_call_time(shown: CallTime, names: ConfigNames, figure: Figure) -> None:
    """A bar per configuration, its parts one after the other."""
    axes, rows = figure.add_subplot(), rows_of(names, shown.parts_ms)
    bars: dict[CallPart, Entry] = {}
    for at, parts_ms in zip(rows.at, shown.parts_ms.values(), strict=True):
        left = 0.0
        for part, length in parts_ms.items():
            name, colour, hatch = PARTS[part]
            bars[part] = axes.barh(
                at, length, rows.bar_in, left, facecolor=colour.light, edgecolor=theme.INK.light,
                hatch=hatch, linewidth=0.6, label=name,
            )  # fmt: skip
            left += length
    rows.draw(axes, names.knob)
    axes.set_xlim(0, 1.03 * max(sum(parts_ms.values()) for parts_ms in shown.parts_ms.values()))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlabel("mean time of a call (ms)")
    legend_below(figure, [bars[part] for part in PARTS if part in bars], 3)


def call_time_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The parts of calls with words; None where no trace tells."""
    shown = call_time(answer)
    if shown is None:
        return None
    names = names_of(answer)
    told = [trial for trial in shown.parts_ms if trial in names.contenders]
    texts = []
    for trial in told or [*shown.parts_ms][:1]:
        parts_ms = shown.parts_ms[trial]
        parts = ", ".join(f"{PARTS[part][0]} {three_digits(ms)}" for part, ms in parts_ms.items())
        total = three_digits(sum(parts_ms.values()))
        texts.append(f"{names.row_name(trial)}: {total} ms, of these {parts}")
    return drawn(
        lambda figure: draw_call_time(shown, names, figure),
        0.75 + rows_of(names, shown.parts_ms).height_in,
        name="call_time",
        title="Where the time of a call goes",
        caption=(
            "An outermost call in the trace of each configuration, on average, as its caller saw "
            "it. Queue is what a request took beyond the fastest one, mostly the wait for a worker "
            "thread. Run queue is the wait for a logical CPU."
            + left_out(len(shown.parts_ms), shown.known)
        ),
        alt=f"Mean time of a call {names.by}: {'; '.join(texts)}",
    )

"""The figures of a row per configuration: how times are distributed, where that of a call goes."""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from tuner.present.configurations import ConfigNames, names_of
from tuner.present.figures.kit import theme
from tuner.present.figures.kit.axis import margin_of, plain_log_axis
from tuner.present.figures.kit.canvas import DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import Entry, Rows, left_out, legend_below, shown_rows
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialDetail
from tuner.text import three_digits
from tuner.world.measurement import CallPart, Quantiles


class Latency(NamedTuple):
    """How long steps and calls took in the configurations to show, the fastest first."""

    details: Mapping[int, TrialDetail]
    """By trial."""
    known: int
    """Of how many measured configurations the quantiles are known."""

    @property
    def panels(self) -> dict[str, dict[int, Quantiles]]:
        """A panel for the steps and one for the calls, whichever has something to show."""
        found = {
            "time of a step (ms)": {trial: each.step_ms for trial, each in self.details.items()},
            "time of a call, traced (ms)": {
                trial: each.call_ms for trial, each in self.details.items()
            },
        }
        known = {
            title: {trial: each for trial, each in panel.items() if each}
            for title, panel in found.items()
        }
        return {title: panel for title, panel in known.items() if panel}


def latency(answer: StudyAnswer) -> Latency | None:
    """The quantiles of the fastest configurations; None where none are known."""
    details = {
        trial: each for trial, each in answer.details.items() if each.step_ms or each.call_ms
    }
    known = [row for row in answer.rows if row.is_measured and row.trial in details]
    if not known:
        return None
    shown = shown_rows(names_of(answer), known)
    return Latency({row.trial: details[row.trial] for row in shown}, len(known))


def draw_latency(shown: Latency, rows: Rows, names: ConfigNames, figure: Figure) -> None:
    """A row per configuration: thin from p5 to p95, thick from p25 to p75, marks at p50 and p99."""
    places = dict(zip(shown.details, rows.at, strict=True))
    panels = shown.panels
    for number, (title, quantiles) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), number)
        _draw_panel(quantiles, places, names, 6 // len(panels), axes)
        if number == 1:
            bold = [row for row, trial in enumerate(shown.details) if trial in names.contenders]
            rows.draw(axes, names.knob, bold)
        else:
            axes.set_ylim(figure.axes[0].get_ylim())
            axes.set_yticks([])
            axes.spines["left"].set_visible(not rows.above)
        axes.set_xlabel(title, fontsize=9)
    legend_below(figure, _legend(), 4)


def _draw_panel(
    quantiles: Mapping[int, Quantiles],
    places: Mapping[int, float],
    names: ConfigNames,
    ticks: int,
    axes: Axes,
) -> None:
    low = max(min(each.p5 for each in quantiles.values()), 1e-9)
    high = max(max(each.p99, each.p95) for each in quantiles.values())
    margin = margin_of(low, high)
    plain_log_axis(axes, "x", low / margin, high * margin, ticks)
    for trial, each in quantiles.items():
        contender, at = names.contenders.get(trial), places[trial]
        colour = (theme.LOOKS[contender].colour if contender else theme.OTHER).light
        axes.hlines(at, each.p5, each.p95, color=colour, linewidth=1.2)
        axes.hlines(at, each.p25, each.p75, color=colour, linewidth=6)
        axes.plot(
            each.p50, at, marker="o", markersize=5, color=theme.PAPER.light, zorder=4,
            markeredgecolor=theme.INK.light,
        )  # fmt: skip
        axes.plot(each.p99, at, marker="x", markersize=5, color=colour, zorder=4)


def _legend() -> list[Line2D]:
    colour, edge = theme.MUTED.light, theme.INK.light
    return [
        Line2D([], [], color=colour, linewidth=1.2, label="5-95 %"),
        Line2D([], [], color=colour, linewidth=6, label="25-75 %"),
        Line2D([], [], linestyle="none", marker="o", markersize=5, color=theme.PAPER.light,
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
        f"{names.row_name(trial)} median step {three_digits(each.step_ms.p50)} ms, "
        f"99th percentile {three_digits(each.step_ms.p99)} ms"
        for trial, each in shown.details.items()
        if each.step_ms and (trial in names.contenders or len(shown.details) <= 8)
    ]
    # A program has no steps.
    what = "All timed steps of all worlds of each configuration"
    if not any(each.step_ms for each in shown.details.values()):
        what = "The calls in the trace of each configuration"
    elif any(each.call_ms for each in shown.details.values()):
        what += ", and the calls of its trace"
    rows = Rows(tuple(map(names.row_name, shown.details)))
    return drawn(
        lambda figure: draw_latency(shown, rows, names, figure),
        0.75 + rows.height_in,
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
    parts = {
        row.trial: answer.details.get(row.trial, TrialDetail()).call_parts_ms
        for row in answer.rows
        if row.is_measured
    }
    known = [row for row in answer.rows if row.trial in parts and any(parts[row.trial].values())]
    if not known:
        return None
    shown = {
        row.trial: {part: parts[row.trial][part] for part in PARTS if parts[row.trial].get(part)}
        for row in shown_rows(names_of(answer), known)
    }
    return CallTime(shown, len(known))


def draw_call_time(shown: CallTime, rows: Rows, names: ConfigNames, figure: Figure) -> None:
    """A bar per configuration, its parts one after the other."""
    axes = figure.add_subplot()
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
    leading = [place for place, trial in enumerate(shown.parts_ms) if trial in names.contenders]
    rows.draw(axes, names.knob, leading)
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
    rows = Rows(tuple(map(names.row_name, shown.parts_ms)))
    return drawn(
        lambda figure: draw_call_time(shown, rows, names, figure),
        0.75 + rows.height_in,
        name="call_time",
        title="Where the time of a call goes",
        caption=(
            "An outermost call in the trace of each configuration, on average, as its caller saw "
            "it. Queue is what a request took beyond the fastest one, mostly the wait for a worker "
            "thread; run queue is the wait for a logical CPU."
            + left_out(len(shown.parts_ms), shown.known)
        ),
        alt=f"Mean time of a call {names.by}: {'; '.join(texts)}",
    )

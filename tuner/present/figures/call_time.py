"""The figure of where the time of a call goes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from tuner.present.figures.kit.config_names import Cast, cast_of, left_out, shown_rows
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import legend_below
from tuner.present.figures.kit.rows import Rows
from tuner.present.figures.kit.theme import (
    INK,
    OFF_CPU,
    ON_CPU,
    PENDING,
    QUEUE,
    RUN_QUEUE,
    SERVED,
    TRANSPORT,
    Colour,
)
from tuner.study.answer import StudyAnswer, TrialDetail
from tuner.text import three_digits
from tuner.world.measurement import CallPart


class PartLook(NamedTuple):
    """What a part is called, and how it is told apart: in grey by its hatch."""

    name: str
    colour: Colour
    hatch: str | None


PARTS: dict[CallPart, PartLook] = {
    "transport": PartLook("transport", TRANSPORT, "//"),
    "queue": PartLook("queue", QUEUE, ".."),
    "on_cpu": PartLook("on CPU", ON_CPU, None),
    "run_queue": PartLook("run queue", RUN_QUEUE, "xx"),
    "off_cpu": PartLook("off CPU", OFF_CPU, None),
    "served": PartLook("served", SERVED, None),
    "pending": PartLook("pending", PENDING, "\\\\"),
}


class CallTimeRow(NamedTuple):
    """One settings: its parts in their order, in milliseconds."""

    label: str
    parts_ms: Mapping[CallPart, float]

    @property
    def total_ms(self) -> float:
        """The mean latency of a call."""
        return sum(self.parts_ms.values())


@dataclass(frozen=True, kw_only=True)
class CallTime:
    """The settings to show, the fastest first."""

    rows: tuple[CallTimeRow, ...]
    known: int
    """Of how many settings that count the parts are known."""

    @property
    def parts(self) -> list[CallPart]:
        """The parts that any of the settings has."""
        return [part for part in PARTS if any(row.parts_ms.get(part) for row in self.rows)]


def call_time(answer: StudyAnswer) -> CallTime | None:
    """The parts of the fastest settings; None where no trace tells."""
    cast = cast_of(answer)
    details = {row.trial: answer.details.get(row.trial, TrialDetail()) for row in answer.rows}
    known = [
        row for row in answer.rows if row.counts and any(details[row.trial].call_parts_ms.values())
    ]
    if not known:
        return None
    rows = []
    for row in shown_rows(cast, known):
        found = details[row.trial].call_parts_ms
        rows.append(CallTimeRow(row.label, {part: found[part] for part in PARTS if part in found}))
    return CallTime(rows=tuple(rows), known=len(known))


def draw_call_time(shown: CallTime, cast: Cast, figure: Figure) -> None:
    """A bar per settings, its parts one after the other."""
    axes = figure.add_subplot()
    rows = Rows(tuple(cast.row_name(row.label) for row in shown.rows))
    for at, row in zip(rows.at, shown.rows, strict=True):
        left = 0.0
        for part in shown.parts:
            length = row.parts_ms.get(part, 0.0)
            if length > 0:
                look = PARTS[part]
                axes.barh(
                    at, length, rows.bar_in, left, facecolor=look.colour.light,
                    edgecolor=INK.light, hatch=look.hatch, linewidth=0.6,
                )  # fmt: skip
                left += length
    rows.draw(axes, cast.knob, [n for n, r in enumerate(shown.rows) if r.label in cast.roles])
    axes.set_xlim(0, 1.03 * max(row.total_ms for row in shown.rows))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlabel("mean time of a call (ms)")
    looks = [PARTS[part] for part in shown.parts]
    handles = [
        Patch(
            facecolor=look.colour.light, edgecolor=INK.light, hatch=look.hatch, linewidth=0.6,
            label=look.name,
        )
        for look in looks
    ]  # fmt: skip
    legend_below(figure, handles, 3)


def call_time_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The parts of calls with words; None where no trace tells."""
    shown = call_time(answer)
    if shown is None:
        return None
    cast = cast_of(answer)
    told = [row for row in shown.rows if row.label in cast.roles] or list(shown.rows[:1])
    texts = []
    for row in told:
        parts = [
            f"{PARTS[part].name} {three_digits(value)}"
            for part, value in row.parts_ms.items()
            if value
        ]
        total = three_digits(row.total_ms)
        texts.append(f"{cast.row_name(row.label)}: {total} ms, of these {', '.join(parts)}")
    words = Words(
        name="call_time",
        title="Where the time of a call goes",
        caption=(
            "An outermost call of the trace of each settings, on average, from the caller's side. "
            "Queue is what a request took beyond the fastest one's way, mostly the wait for a "
            "worker thread; run queue is the wait for a core."
            + left_out(len(shown.rows), shown.known)
        ),
        alt=f"Mean time of a call {cast.by}: {'; '.join(texts)}",
    )
    rows = Rows(tuple(cast.row_name(row.label) for row in shown.rows))
    return drawn(words, 0.75 + rows.height_in, lambda figure: draw_call_time(shown, cast, figure))

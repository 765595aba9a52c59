"""The figure of where the time of a call goes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from tuner.present.figures.kit.config_names import ConfigNames, names_of
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import legend_below
from tuner.present.figures.kit.row_names import Rows, left_out, shown_rows
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
from tuner.study.answer import StudyAnswer
from tuner.study.rows import TrialDetail
from tuner.text import three_digits
from tuner.world.measurement import CallPart


class PartLook(NamedTuple):
    """What a part is called, and how it is drawn; in grey its hatch tells it apart."""

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
    """One configuration: the parts of its calls in their order, in milliseconds."""

    trial: int
    parts_ms: Mapping[CallPart, float]

    @property
    def total_ms(self) -> float:
        """The mean latency of a call."""
        return sum(self.parts_ms.values())


@dataclass(frozen=True, kw_only=True)
class CallTime:
    """The configurations to show, the fastest first."""

    rows: tuple[CallTimeRow, ...]
    known: int
    """Of how many measured configurations the parts are known."""

    @property
    def parts(self) -> list[CallPart]:
        """The parts that any of the configurations has."""
        return [part for part in PARTS if any(row.parts_ms.get(part) for row in self.rows)]


def call_time(answer: StudyAnswer) -> CallTime | None:
    """The parts of the fastest configurations; None where no trace tells."""
    details = {row.trial: answer.details.get(row.trial, TrialDetail()) for row in answer.rows}
    known = [
        row
        for row in answer.rows
        if row.is_measured and any(details[row.trial].call_parts_ms.values())
    ]
    if not known:
        return None
    rows = []
    for row in shown_rows(names_of(answer), known):
        found = details[row.trial].call_parts_ms
        rows.append(CallTimeRow(row.trial, {part: found[part] for part in PARTS if part in found}))
    return CallTime(rows=tuple(rows), known=len(known))


def draw_call_time(shown: CallTime, names: ConfigNames, figure: Figure) -> None:
    """A bar per configuration, its parts one after the other."""
    axes = figure.add_subplot()
    rows = Rows(tuple(names.row_name(row.trial) for row in shown.rows))
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
    leading = [place for place, row in enumerate(shown.rows) if row.trial in names.contenders]
    rows.draw(axes, names.knob, leading)
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
    names = names_of(answer)
    told = [row for row in shown.rows if row.trial in names.contenders] or list(shown.rows[:1])
    texts = []
    for row in told:
        parts = [
            f"{PARTS[part].name} {three_digits(value)}"
            for part, value in row.parts_ms.items()
            if value
        ]
        total = three_digits(row.total_ms)
        texts.append(f"{names.row_name(row.trial)}: {total} ms, of these {', '.join(parts)}")
    words = Words(
        name="call_time",
        title="Where the time of a call goes",
        caption=(
            "An outermost call in the trace of each configuration, on average, as its caller saw "
            "it. Queue is what a request took beyond the fastest one, mostly the wait for a worker "
            "thread; run queue is the wait for a logical CPU."
            + left_out(len(shown.rows), shown.known)
        ),
        alt=f"Mean time of a call {names.by}: {'; '.join(texts)}",
    )
    rows = Rows(tuple(names.row_name(row.trial) for row in shown.rows))
    return drawn(words, 0.75 + rows.height_in, lambda figure: draw_call_time(shown, names, figure))

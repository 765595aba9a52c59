"""Draws timelines: a lane per thread of each server, above them the calls under way to it."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path as MplPath

from tuner.errors import UsageError
from tuner.present.figures.kit.canvas import SMALL, canvas
from tuner.present.figures.kit.legends import entry_name, legend_below
from tuner.present.figures.kit.theme import (
    EDGES,
    FUNCTIONS,
    IDLE,
    IN_FLIGHT,
    MUTED,
    OPERATORS,
    OTHER_FUNCTIONS,
    OTHER_FUNCTIONS_EDGE,
    Colour,
)
from tuner.present.figures.timeline_data import FINEST, Lane, ServerLanes, Timeline, timeline
from tuner.text import plural, three_digits
from tuner.trace.model.trace import Trace

_OTHERS = "other functions"
_HATCHES = {"inferred": "////", "unfinished": "xxxx"}
_KINDS = {
    "inferred": "served without Python; known by its operators",
    "unfinished": "never ended",
}

_HEADING, _IN_FLIGHT, _LANE, _GAP = 0.9, 0.9, 1.0, 0.5
"""Heights, in lanes."""
_BAR, _STRIP = 0.6, 0.14
"""Heights of a bar, and of the strip of operators below it, in lanes."""


class Paint(NamedTuple):
    """The colours of a function's bars, and of their edges and hatches."""

    fill: Colour
    edge: Colour


_PAINTS = tuple(Paint(*pair) for pair in zip(FUNCTIONS, EDGES, strict=True))
_OTHERS_PAINT = Paint(OTHER_FUNCTIONS, OTHER_FUNCTIONS_EDGE)


class Scales(NamedTuple):
    """Timelines to compare, and what all of them share."""

    shown: list[Timeline]
    longest_ms: float
    colours: dict[str, Paint]

    def legend(self, width: int = 1000) -> list[Patch]:
        """An entry for each kind of thing that is drawn, its name in lines of so many letters."""
        entries = _legend(self.shown, self.colours)
        for entry in entries:
            entry.set_label(entry_name(str(entry.get_label()), width))
        return entries

    def draw(self, each: Timeline, axes: Axes, *, narrow: bool = False) -> None:
        """Draw one of them, with its lanes alone."""
        draw_timeline(each, axes, self.colours, narrow=narrow)
        axes.set_xlim(0, self.longest_ms * 1.002)

    @property
    def highest(self) -> float:
        """The height of the highest, in lanes."""
        return max(map(total_height, self.shown))


def scales(traces: Sequence[tuple[str, Trace]], finest: int = FINEST) -> Scales:
    """The timelines of named traces, with as many steps of each; `finest` as in `timeline`."""
    shown = _comparable(traces, finest)
    colours = _palette(shown)
    return Scales(shown, max(each.length_ms for each in shown), colours)


def height_in(lanes: float) -> float:
    """The height of a figure without its legend, in inches."""
    return 1.3 + 0.27 * lanes


def draw_timeline(
    timeline: Timeline,
    axes: Axes,
    colours: Mapping[str, Paint] | None = None,
    *,
    narrow: bool = False,
) -> None:
    """Draw the lanes from the top down.

    Args:
        timeline: The data.
        axes: Where to draw.
        colours: The colours by function, where several timelines share them.
        narrow: Whether to break long names of lanes.
    """
    colours = _palette([timeline]) if colours is None else colours
    top, ticks = 0.0, dict[float, str]()
    for server in timeline.servers:
        ticks |= _draw_server(server, timeline.length_ms, top, colours, axes)
        top += _height(server) + _GAP
    axes.set_xlim(0, timeline.length_ms or 1.0)
    axes.set_ylim(total_height(timeline), 0)
    labels = [narrowed(label) if narrow else label for label in ticks.values()]
    axes.set_yticks(list(ticks), labels, fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    if not timeline.servers:
        axes.set_axis_off()
    axes.set_xlabel(f"time (ms); 0 is {three_digits(timeline.start_ms)} ms into the trace")
    axes.set_title(timeline.title, loc="left", weight="bold", pad=18)
    axes.annotate(
        timeline.note, (0, 1), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points",
        fontsize=SMALL, color=MUTED.light,
    )  # fmt: skip


def write_timeline_figure(trace: Trace, path: Path, title: str = "") -> None:
    """Draw a trace's timeline.

    Args:
        trace: The trace.
        path: The file; its suffix says the format: `.svg` or `.png`.
        title: What stands above it.

    Raises:
        UsageError: The trace holds nothing to show.
    """
    write_timelines_figure([(title, trace)], path)


def write_timelines_figure(traces: Sequence[tuple[str, Trace]], path: Path) -> None:
    """Draw timelines side by side, on scales of the same length.

    Where the traces know their steps, as many steps of each are shown.

    Args:
        traces: Titles and traces.
        path: The file; its suffix says the format: `.svg` or `.png`.

    Raises:
        UsageError: None of the traces holds anything to show.
    """
    shared = scales(traces)
    shown = shared.shown
    if not any(each.servers for each in shown):
        raise UsageError(f"there is no timeline to draw: {shown[0].note}")
    legend, columns = shared.legend(), 2 * len(shown) + 1
    width = 11.0 if len(shown) == 1 else 7.2 * len(shown)
    height = height_in(shared.highest) + 0.2 * math.ceil(len(legend) / columns)
    with canvas((width, height), [path]) as figure:
        for place, each in enumerate(shown, start=1):
            axes = figure.add_subplot(1, len(shown), place)
            shared.draw(each, axes)
            axes.set_ylim(shared.highest, 0)  # side by side, all lanes are of one height
        legend_below(figure, legend, columns)


def narrowed(name: str) -> str:
    """The name of a lane in short lines."""
    return fill(name, 16)


def _comparable(traces: Sequence[tuple[str, Trace]], finest: int) -> list[Timeline]:
    shown = [timeline(trace, title, finest=finest) for title, trace in traces]
    steps = {each.steps for each in shown}
    if len(steps) == 1 or None in steps:
        return shown
    fewest = min(number for number in steps if number is not None)
    return [timeline(trace, title, steps=fewest, finest=finest) for title, trace in traces]


def total_height(timeline: Timeline) -> float:
    """The height of all that is drawn, in lanes; at least one lane."""
    return max(sum(_height(server) + _GAP for server in timeline.servers) - _GAP, _LANE)


def _height(server: ServerLanes) -> float:
    return _HEADING + _IN_FLIGHT * bool(server.in_flight) + _LANE * len(server.lanes)


def _draw_server(
    server: ServerLanes, length_ms: float, top: float, colours: Mapping[str, Paint], axes: Axes
) -> dict[float, str]:
    """Draw a server from `top` down; returns the labels of its lanes by their middles."""
    at_heading = (0, top + _HEADING * 0.75)
    axes.annotate(server.label, at_heading, xycoords=("axes fraction", "data"), weight="bold")
    top += _HEADING
    labels = {}
    if server.in_flight:
        labels[top + _IN_FLIGHT / 2] = under_way(server)
        _draw_in_flight(server, length_ms, top, axes)
        top += _IN_FLIGHT
    for lane in server.lanes:
        labels[top + _LANE / 2] = lane.label
        _draw_lane(lane, length_ms, top, colours, axes)
        top += _LANE
    return labels


def under_way(server: ServerLanes) -> str:
    """What the lane of the calls to a server is called."""
    most = max((level for _, level in server.in_flight), default=0)
    return f"up to {plural(most, 'call')} under way"


def _draw_in_flight(server: ServerLanes, length_ms: float, top: float, axes: Axes) -> None:
    """Draw the number of calls under way, as steps from the floor of its lane."""
    most = max(level for _, level in server.in_flight) or 1
    floor, height = top + _IN_FLIGHT * 0.95, _IN_FLIGHT * 0.8
    times = [at_ms for at_ms, _ in server.in_flight]
    levels = [floor - height * level / most for _, level in server.in_flight]
    axes.fill_between(
        [*times, length_ms], [*levels, levels[-1]], floor, step="post", color=IN_FLIGHT.light,
        linewidth=0,
    )  # fmt: skip


def _draw_lane(
    lane: Lane, length_ms: float, top: float, colours: Mapping[str, Paint], axes: Axes
) -> None:
    bar_top = top + (_LANE - _BAR - _STRIP) / 2
    axes.broken_barh([(0, length_ms)], (bar_top, _BAR), facecolor=IDLE.light, linewidth=0, zorder=1)
    alike: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for bar in lane.bars:
        # Of an excerpt the axes may be longer, and a bar goes on there.
        end_ms = min(bar.end_ms, length_ms)
        alike.setdefault((bar.what, bar.kind), []).append((bar.start_ms, end_ms - bar.start_ms))
    for (what, kind), spans in alike.items():
        paint = colours.get(what, _OTHERS_PAINT)
        axes.broken_barh(
            spans,
            (bar_top, _BAR),
            facecolor=paint.fill.light,
            edgecolor=paint.edge.light,
            hatch=_HATCHES.get(kind),
            linewidth=0.6,
            zorder=2,
        )
    strip = [(start_ms, min(end_ms, length_ms)) for start_ms, end_ms in lane.operators]
    _draw_strip(strip, bar_top + _BAR, axes)


def _draw_strip(spans: Sequence[tuple[float, float]], top: float, axes: Axes) -> None:
    """Draw the spans as rectangles of one path: there can be thousands."""
    if not spans:
        return
    corners = [
        corner
        for start_ms, end_ms in spans
        for corner in (
            (start_ms, top), (end_ms, top), (end_ms, top + _STRIP), (start_ms, top + _STRIP),
            (start_ms, top),
        )
    ]  # fmt: skip
    codes = [MplPath.MOVETO, *[MplPath.LINETO] * 3, MplPath.CLOSEPOLY] * len(spans)
    axes.add_patch(
        PathPatch(MplPath(corners, codes), facecolor=OPERATORS.light, linewidth=0, zorder=2)
    )


def _palette(timelines: Sequence[Timeline]) -> dict[str, Paint]:
    """The colours of the functions with the most time; all others share one."""
    functions = dict.fromkeys(name for each in timelines for name in each.functions)
    return dict(zip(functions, _PAINTS, strict=False))


def _legend(timelines: Sequence[Timeline], colours: Mapping[str, Paint]) -> list[Patch]:
    """An entry for each kind of thing that is drawn, and for no other."""
    servers = [server for each in timelines for server in each.servers]
    lanes = [lane for server in servers for lane in server.lanes]
    bars = [bar for lane in lanes for bar in lane.bars]
    named = {bar.what for bar in bars}
    entries = [_patch(paint, name) for name, paint in colours.items() if name in named]
    if named - set(colours):
        entries.append(_patch(_OTHERS_PAINT, _OTHERS))
    kinds = {bar.kind for bar in bars}
    entries += [
        Patch(facecolor="none", edgecolor=MUTED.light, hatch=_HATCHES[kind], label=label)
        for kind, label in _KINDS.items()
        if kind in kinds
    ]
    if any(lane.operators for lane in lanes):
        entries.append(Patch(facecolor=OPERATORS.light, linewidth=0, label="inside operators"))
    return entries


def _patch(paint: Paint, label: str) -> Patch:
    return Patch(facecolor=paint.fill.light, edgecolor=paint.edge.light, label=label)

"""Draws timelines: a lane per thread under its server, above them the calls under way to it."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from tuner.errors import UsageError
from tuner.present.figures.canvas import canvas
from tuner.present.figures.timeline import Lane, ServerLanes, Timeline, timeline
from tuner.present.numbers import counted, three_digits
from tuner.trace.schema import Trace

# Told apart by the colour-blind, and in grey by their lightness: Paul Tol's medium contrast.
_COLOURS = ("#6699CC", "#EECC66", "#004488", "#EE99AA", "#994455", "#997700")
_OTHERS = "other functions"
_OTHERS_COLOUR = "#DDDDDD"
_DARK = 0.4
"""Luminance of the colours that a darker edge would not show on."""
_OPERATORS_COLOUR = "#222222"
_IN_FLIGHT_COLOUR = "#BBBBBB"
_IDLE_COLOUR = "#F3F3F3"
_HATCHES = {"inferred": "////", "unfinished": "xxxx"}
_KINDS = {
    "inferred": "served without Python; known by its operators",
    "unfinished": "never ended",
}

_HEADING, _IN_FLIGHT, _LANE, _GAP = 0.9, 0.9, 1.0, 0.5
"""Heights, in lanes."""
_BAR, _STRIP = 0.6, 0.14
"""Heights of a bar, and of the strip of operators below it, in lanes."""


def draw_timeline(timeline: Timeline, axes: Axes, colours: Mapping[str, str] | None = None) -> None:
    """Draw the lanes from the top down; `colours` by function, where timelines share them."""
    colours = _palette([timeline]) if colours is None else colours
    top, ticks = 0.0, dict[float, str]()
    for server in timeline.servers:
        ticks |= _draw_server(server, timeline.length_ms, top, colours, axes)
        top += _height(server) + _GAP
    axes.set_xlim(0, timeline.length_ms or 1.0)
    axes.set_ylim(_total_height(timeline), 0)
    axes.set_yticks(list(ticks), list(ticks.values()), fontsize="small")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    if not timeline.servers:
        axes.set_axis_off()
    axes.set_xlabel(f"time (ms); 0 is {three_digits(timeline.start_ms)} ms into the trace")
    axes.set_title(timeline.title, loc="left", weight="bold", pad=18)
    axes.annotate(
        timeline.note, (0, 1), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points",
        fontsize="small", color="#555555",
    )  # fmt: skip


def write_timeline_figure(trace: Trace, path: Path, title: str = "") -> None:
    """Draw a trace's timeline to the path, in the format of its suffix (`.svg`, `.png`).

    UsageError if the trace holds nothing to show.
    """
    write_timelines_figure([(title, trace)], path)


def write_timelines_figure(traces: Sequence[tuple[str, Trace]], path: Path) -> None:
    """Draw the timelines of named traces side by side, on scales of the same length.

    Of each as many steps are shown, where the traces know their steps. UsageError if none of them
    holds anything to show.
    """
    shown = _comparable(traces)
    if not any(each.servers for each in shown):
        raise UsageError(f"there is no timeline to draw: {shown[0].note}")
    longest_ms = max(each.length_ms for each in shown)
    highest = max(_total_height(each) for each in shown)
    colours = _palette(shown)
    legend, columns = _legend(shown, colours), 2 * len(shown) + 1
    width = 11.0 if len(shown) == 1 else 7.2 * len(shown)
    height = 1.3 + 0.27 * highest + 0.2 * math.ceil(len(legend) / columns)
    with canvas((width, height), [path]) as figure:
        for place, each in enumerate(shown, start=1):
            axes = figure.add_subplot(1, len(shown), place)
            draw_timeline(each, axes, colours)
            axes.set_xlim(0, longest_ms * 1.002)
            axes.set_ylim(highest, 0)
        figure.legend(
            handles=legend, loc="outside lower left", ncols=columns, frameon=False,
            fontsize="small",
        )  # fmt: skip


def _comparable(traces: Sequence[tuple[str, Trace]]) -> list[Timeline]:
    shown = [timeline(trace, title) for title, trace in traces]
    steps = {each.steps for each in shown}
    if len(steps) == 1 or None in steps:
        return shown
    fewest = min(number for number in steps if number is not None)
    return [timeline(trace, title, steps=fewest) for title, trace in traces]


def _total_height(timeline: Timeline) -> float:
    """The height of all that is drawn, in lanes; of nothing, one lane's."""
    return max(sum(_height(server) + _GAP for server in timeline.servers) - _GAP, _LANE)


def _height(server: ServerLanes) -> float:
    return _HEADING + _IN_FLIGHT * bool(server.in_flight) + _LANE * len(server.lanes)


def _draw_server(
    server: ServerLanes, length_ms: float, top: float, colours: Mapping[str, str], axes: Axes
) -> dict[float, str]:
    """Draw a server from `top` down; returns what is where: the labels by the middles of lanes."""
    at_heading = (0, top + _HEADING * 0.75)
    axes.annotate(server.label, at_heading, xycoords=("axes fraction", "data"), weight="bold")
    top += _HEADING
    labels = {}
    if server.in_flight:
        most = max(level for _, level in server.in_flight)
        labels[top + _IN_FLIGHT / 2] = f"up to {counted(most, 'call')} under way"
        _draw_in_flight(server, length_ms, top, axes)
        top += _IN_FLIGHT
    for lane in server.lanes:
        labels[top + _LANE / 2] = lane.label
        _draw_lane(lane, length_ms, top, colours, axes)
        top += _LANE
    return labels


def _draw_in_flight(server: ServerLanes, length_ms: float, top: float, axes: Axes) -> None:
    """The number of calls under way, as steps from the floor of its lane."""
    most = max(level for _, level in server.in_flight) or 1
    floor, height = top + _IN_FLIGHT * 0.95, _IN_FLIGHT * 0.8
    times = [at_ms for at_ms, _ in server.in_flight]
    levels = [floor - height * level / most for _, level in server.in_flight]
    axes.fill_between(
        [*times, length_ms], [*levels, levels[-1]], floor, step="post", color=_IN_FLIGHT_COLOUR,
        linewidth=0,
    )  # fmt: skip


def _draw_lane(
    lane: Lane, length_ms: float, top: float, colours: Mapping[str, str], axes: Axes
) -> None:
    bar_top = top + (_LANE - _BAR - _STRIP) / 2
    axes.broken_barh([(0, length_ms)], (bar_top, _BAR), facecolor=_IDLE_COLOUR, zorder=1)
    alike: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for bar in lane.bars:
        alike.setdefault((bar.what, bar.kind), []).append((bar.start_ms, bar.end_ms - bar.start_ms))
    for (what, kind), spans in alike.items():
        colour = colours.get(what, _OTHERS_COLOUR)
        axes.broken_barh(
            spans,
            (bar_top, _BAR),
            facecolor=colour,
            edgecolor=_edge(colour),
            hatch=_HATCHES.get(kind),
            linewidth=0.6,
            zorder=2,
        )
    axes.broken_barh(
        [(start_ms, end_ms - start_ms) for start_ms, end_ms in lane.operators],
        (bar_top + _BAR, _STRIP),
        facecolor=_OPERATORS_COLOUR,
        linewidth=0,
        zorder=2,
    )


def _palette(timelines: Sequence[Timeline]) -> dict[str, str]:
    """The colours of the functions with the most time; the others share one."""
    functions = dict.fromkeys(name for each in timelines for name in each.functions)
    return dict(zip(functions, _COLOURS, strict=False))


def _legend(timelines: Sequence[Timeline], colours: Mapping[str, str]) -> list[Patch]:
    """An entry for each thing that is drawn, and for no other."""
    servers = [server for each in timelines for server in each.servers]
    lanes = [lane for server in servers for lane in server.lanes]
    bars = [bar for lane in lanes for bar in lane.bars]
    drawn = {bar.what for bar in bars}
    entries = [_patch(colour, name) for name, colour in colours.items() if name in drawn]
    if drawn - set(colours):
        entries.append(_patch(_OTHERS_COLOUR, _OTHERS))
    kinds = {bar.kind for bar in bars}
    entries += [
        Patch(facecolor="white", edgecolor="#555555", hatch=_HATCHES[kind], label=label)
        for kind, label in _KINDS.items()
        if kind in kinds
    ]
    if any(lane.operators for lane in lanes):
        entries.append(Patch(facecolor=_OPERATORS_COLOUR, label="inside operators"))
    return entries


def _patch(colour: str, label: str) -> Patch:
    return Patch(facecolor=colour, edgecolor=_edge(colour), label=label)


def _edge(colour: str) -> tuple[float, float, float]:
    """A colour for the edge and the hatch on this one: darker, on a dark one lighter."""
    red, green, blue = to_rgb(colour)
    light = 0.3 * red + 0.6 * green + 0.1 * blue > _DARK
    weight, ground = (0.6, 0.0) if light else (0.5, 0.5)
    return (weight * red + ground, weight * green + ground, weight * blue + ground)

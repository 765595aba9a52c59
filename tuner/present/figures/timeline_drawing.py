"""Draws timelines: a lane per thread of each process, above them the calls that are under way."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path as MplPath

from tuner.errors import UsageError
from tuner.present.figures.kit import theme
from tuner.present.figures.kit.canvas import SMALL, DrawnFigure, canvas, drawn
from tuner.present.figures.kit.named_rows import entry_name, legend_below, wrapped
from tuner.present.figures.timeline_data import FINEST, Lane, ServerLanes, Timeline, timeline
from tuner.text import plural, three_digits
from tuner.trace.model.trace import Trace

_HATCHES = {"inferred": "////", "unfinished": "xxxx"}
_KINDS = {"inferred": "served without Python; known by its operators", "unfinished": "never ended"}
_HEADING, _IN_FLIGHT, _LANE, _GAP = 0.9, 0.9, 1.0, 0.5
"""Heights, in lanes."""
_BAR, _STRIP = 0.6, 0.14
"""Heights of a bar, and of the strip of operators below it, in lanes."""
_FINE = 1000
"""Operators that fit side by side into a figure of the report's width."""
_ENTRY, _TITLE, _LABEL = 22, 34, 16
"""On a page, letters of a legend's entry in two columns, and of a line of titles and lanes."""
_TITLE_LINE_IN = 0.17

_Paint = tuple[theme.Colour, theme.Colour]
"""The colour of a function's bars, and that of their edges and hatches."""
_PAINTS: Sequence[_Paint] = tuple(zip(theme.FUNCTIONS, theme.EDGES, strict=True))
_OTHERS: _Paint = (theme.OTHER_FUNCTIONS, theme.OTHER_FUNCTIONS_EDGE)


class Scales(NamedTuple):
    """Timelines to compare, on scales of one length."""

    shown: list[Timeline]

    @property
    def colours(self) -> dict[str, _Paint]:
        """The colours of the functions with the most time; all others share one."""
        functions = dict.fromkeys(name for each in self.shown for name in each.functions)
        return dict(zip(functions, _PAINTS, strict=False))

    @property
    def highest(self) -> float:
        """The height of the highest, in lanes."""
        return max(map(total_height, self.shown))

    def legend(self, width: int = 1000) -> list[Patch]:
        """An entry for each kind of thing that is drawn, its name in lines of so many letters."""
        lanes = [lane for each in self.shown for lane in each.lanes]
        bars = [bar for lane in lanes for bar in lane.bars]
        named, kinds = {bar.what for bar in bars}, {bar.kind for bar in bars}
        paints = {name: paint for name, paint in self.colours.items() if name in named}
        if named != set(paints):
            paints["other functions"] = _OTHERS
        entries = [
            Patch(facecolor=fill.light, edgecolor=edge.light, label=name)
            for name, (fill, edge) in paints.items()
        ]
        entries += [
            Patch(facecolor="none", edgecolor=theme.MUTED.light, hatch=_HATCHES[kind], label=label)
            for kind, label in _KINDS.items()
            if kind in kinds
        ]
        if any(lane.operators for lane in lanes):
            strip = Patch(facecolor=theme.OPERATORS.light, linewidth=0, label="inside operators")
            entries.append(strip)
        for entry in entries:
            entry.set_label(entry_name(str(entry.get_label()), width))
        return entries

    def draw(self, timeline: Timeline, axes: Axes, *, narrow: bool = False) -> None:
        """Draw the lanes of one of them from the top down, long names of lanes in short lines."""
        top, ticks = 0.0, dict[float, str]()
        for server in timeline.servers:
            ticks |= _draw_server(server, timeline.length_ms, top, self.colours, axes)
            top += _height(server) + _GAP
        axes.set_xlim(0, max(each.length_ms for each in self.shown) * 1.002 or 1.0)
        axes.set_ylim(total_height(timeline), 0)
        labels = [fill(tick, _LABEL) if narrow else tick for tick in ticks.values()]
        axes.set_yticks(list(ticks), labels, fontsize=SMALL)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
        if not timeline.servers:
            axes.set_axis_off()
        axes.set_xlabel(f"time (ms); 0 is {three_digits(timeline.start_ms)} ms into the trace")
        axes.set_title(timeline.title, loc="left", weight="bold", pad=18)
        axes.annotate(
            timeline.note, (0, 1), xycoords="axes fraction", xytext=(0, 6), fontsize=SMALL,
            textcoords="offset points", color=theme.MUTED.light,
        )  # fmt: skip


def scales(traces: Sequence[tuple[str, Trace]], finest: int = FINEST) -> Scales:
    """The timelines of named traces, with as many steps of each; `finest` as in `timeline`."""
    shown = [timeline(trace, title, finest=finest) for title, trace in traces]
    steps = {each.steps for each in shown}
    if len(steps) > 1 and None not in steps:
        fewest = min(number for number in steps if number is not None)
        shown = [timeline(trace, title, steps=fewest, finest=finest) for title, trace in traces]
    return Scales(shown)


def write_timeline_figure(traces: Sequence[tuple[str, Trace]], path: Path) -> None:
    """Draw the timelines of titled traces side by side, on scales of the same length.

    The suffix of the path says the format: `.svg` or `.png`. UsageError if no trace holds anything
    to show.
    """
    shared = scales(traces)
    shown = shared.shown
    if not any(each.servers for each in shown):
        raise UsageError(f"there is no timeline to draw: {shown[0].note}")
    legend, columns = shared.legend(), 2 * len(shown) + 1
    width = 11.0 if len(shown) == 1 else 7.2 * len(shown)
    height = _height_in(shared.highest) + 0.2 * math.ceil(len(legend) / columns)
    with canvas((width, height), path) as figure:
        for place, each in enumerate(shown, start=1):
            axes = figure.add_subplot(1, len(shown), place)
            shared.draw(each, axes)
            axes.set_ylim(shared.highest, 0)  # side by side, all lanes are of one height
        legend_below(figure, legend, columns)


def timeline_figures(traces: Sequence[tuple[str, str, Trace]]) -> list[DrawnFigure]:
    """A figure for each contender, name of its configuration, and trace, made to be compared."""
    if not traces:
        return []
    titles = [wrapped(f"{contender}: {name}", _TITLE, most=3) for contender, name, _ in traces]
    lines = max(title.count("\n") for title in titles)
    # Titles of as many lines, or the first lanes would not be side by side.
    titles = [title + "\n" * (lines - title.count("\n")) for title in titles]
    shared = scales([(title, trace[2]) for title, trace in zip(titles, traces, strict=True)], _FINE)
    return [
        drawn(
            partial(_draw_narrow, shared, each),
            _height_in(total_height(each)) + _TITLE_LINE_IN * lines,
            partial(_align, shared),
            name=f"timeline_{contender}",
            title=f"Timeline of the servers: {contender}",
            caption=(
                "A row per thread. A bar is a call that it served. The dark strip below it is "
                "the time inside operators. Above the threads, in grey: the calls under way. "
                f"Shown: {each.note}. All timelines of a study have scales of the same length."
            ),
            alt=(
                f"{name}: {'; '.join(server.label for server in each.servers)}: "
                f"{plural(sum(len(lane.bars) for lane in each.lanes), 'bar')} in "
                f"{three_digits(each.length_ms)} ms"
            ),
        )
        for (contender, name, _), each in zip(traces, shared.shown, strict=True)
        if each.servers
    ]


def _draw_narrow(shared: Scales, each: Timeline, figure: Figure) -> None:
    shared.draw(each, figure.add_subplot(), narrow=True)
    words = [word for entry in shared.legend() for word in str(entry.get_label()).split()]
    # The name of a function is never broken.
    columns = 2 if max(map(len, words), default=0) <= _ENTRY else 1
    legend_below(figure, shared.legend(2 * _ENTRY // columns), columns)


def _align(shared: Scales, figure: Figure) -> None:
    """Leave as much room for the names of lanes as the longest name in any timeline takes."""
    (axes,) = figure.axes
    names = [
        name
        for each in shared.shown
        for server in each.servers
        for name in (*_under_way(server), *(lane.label for lane in server.lanes))
    ]
    texts = [
        axes.annotate(
            fill(name, _LABEL), (0, axes.get_yticks()[0]), xycoords=("axes fraction", "data"),
            xytext=(-4, 0), textcoords="offset points", ha="right", va="center", fontsize=SMALL,
        )
        for name in dict.fromkeys(names)
    ]  # fmt: skip
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for text in texts:
        text.remove()


def _height_in(lanes: float) -> float:
    """The height of a figure without its legend, in inches."""
    return 1.3 + 0.27 * lanes


def total_height(timeline: Timeline) -> float:
    """The height of all that is drawn, in lanes; at least one lane."""
    return max(sum(_height(server) + _GAP for server in timeline.servers) - _GAP, _LANE)


def _height(server: ServerLanes) -> float:
    return _HEADING + _IN_FLIGHT * len(_under_way(server)) + _LANE * len(server.lanes)


def _draw_server(
    server: ServerLanes, length_ms: float, top: float, colours: Mapping[str, _Paint], axes: Axes
) -> dict[float, str]:
    """Draw a server from `top` down; returns the labels of its lanes by their middles."""
    at_heading = (0, top + _HEADING * 0.75)
    axes.annotate(server.label, at_heading, xycoords=("axes fraction", "data"), weight="bold")
    top += _HEADING
    labels = {}
    for label, levels in _under_way(server).items():
        labels[top + _IN_FLIGHT / 2] = label
        _draw_in_flight(levels, length_ms, top, axes)
        top += _IN_FLIGHT
    for lane in server.lanes:
        labels[top + _LANE / 2] = lane.label
        _draw_lane(lane, length_ms, top, colours, axes)
        top += _LANE
    return labels


_Levels = tuple[tuple[float, int], ...]


def _under_way(server: ServerLanes) -> dict[str, _Levels]:
    """The lanes of calls that are under way, by what they are called."""
    lanes = {}
    for levels, suffix in ((server.in_flight, " to it" * bool(server.issued)),
                           (server.issued, " from it")):  # fmt: skip
        if levels:
            most = max(level for _, level in levels)
            lanes[f"up to {plural(most, 'call')} under way{suffix}"] = levels
    return lanes


def _draw_in_flight(under_way: _Levels, length_ms: float, top: float, axes: Axes) -> None:
    """Draw the number of calls under way, as steps from the floor of its lane."""
    most = max(level for _, level in under_way) or 1
    floor, height = top + _IN_FLIGHT * 0.95, _IN_FLIGHT * 0.8
    times = [at_ms for at_ms, _ in under_way]
    levels = [floor - height * level / most for _, level in under_way]
    axes.fill_between(
        [*times, length_ms], [*levels, levels[-1]], floor, step="post", color=theme.IN_FLIGHT.light,
        linewidth=0,
    )  # fmt: skip


def _draw_lane(
    lane: Lane, length_ms: float, top: float, colours: Mapping[str, _Paint], axes: Axes
) -> None:
    bar_top = top + (_LANE - _BAR - _STRIP) / 2
    axes.broken_barh(
        [(0, length_ms)], (bar_top, _BAR), facecolor=theme.IDLE.light, linewidth=0, zorder=1
    )
    alike: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for bar in lane.bars:
        # Of an excerpt the axes may be longer, and a bar goes on there.
        end_ms = min(bar.end_ms, length_ms)
        alike.setdefault((bar.what, bar.kind), []).append((bar.start_ms, end_ms - bar.start_ms))
    for (what, kind), spans in alike.items():
        fill_colour, edge = colours.get(what, _OTHERS)
        axes.broken_barh(
            spans, (bar_top, _BAR), facecolor=fill_colour.light, edgecolor=edge.light,
            hatch=_HATCHES.get(kind), linewidth=0.6, zorder=2,
        )  # fmt: skip
    if strip := [(start_ms, min(end_ms, length_ms)) for start_ms, end_ms in lane.operators]:
        # Rectangles of one path: there can be thousands.
        upper, lower = bar_top + _BAR, bar_top + _BAR + _STRIP
        corners = [[(a, upper), (b, upper), (b, lower), (a, lower)] for a, b in strip]
        path = MplPath.make_compound_path_from_polys(np.array(corners))
        axes.add_patch(PathPatch(path, facecolor=theme.OPERATORS.light, linewidth=0, zorder=2))

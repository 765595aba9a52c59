"""The tables of a trace, each by its name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd
from rich.cells import cell_len

from tuner.present.analysis import SOURCES, Analysis
from tuner.present.text_table import Column, rows_left_out, text_table
from tuner.text import decimal, first_of, one_line, percent, plural, share
from tuner.trace.analyze.path_walk import PARTS
from tuner.trace.analyze.recipe_table import of_all_ranks

TableName = Literal["calls", "parts", "recipe", "operators", "path", "threads", "changes"]
TABLES: tuple[TableName, ...] = get_args(TableName)
MOST_LISTED = 12
"""Levels, threads, ranks that are listed one by one; of more ranks a name has one row."""
LEAST_SHARE = 0.005
"""Parts of the critical path that take less of the time, and whose interval ends below that too,
are not listed where rows are limited."""
_OF_NO_CALL = ("caller", "backward")  # other parts without a function are of a fetch
_UNITS = (("us", 1.0), ("ms", 1e3), ("s", 1e6))
_LARGEST = 1e4
"""From here on a time is given in the next larger unit."""


class Table(NamedTuple):
    """Columns of named rows, and the lines below them."""

    heading: str
    names: Sequence[str]
    columns: Sequence[Column]
    notes: Sequence[str] = ()
    last: Column | None = None
    """Another column, where it fits beside the others."""

    def lines(self, width: int) -> list[str]:
        """The table without its empty columns, and its notes."""
        first = Column(self.heading, [*map(one_line, self.names)], is_name=True)
        columns = [first, *(each for each in self.columns if any(each.cells))]
        if self.last is not None and any(self.last.cells):
            whole = text_table([*columns, self.last], width)
            if max(map(cell_len, whole)) <= width:
                return [*whole, *self.notes]
        return [*text_table(columns, width), *self.notes]


def _limited(table: pd.DataFrame, limit: int | None) -> tuple[pd.DataFrame, list[str]]:
    """The first rows, and how many more there are."""
    if not limit or len(table) <= limit:
        return table, []
    return table.head(limit), rows_left_out(limit, len(table))


def _latency(analysis: Analysis, limit: int | None) -> Table:
    table, more = _limited(analysis.latency, limit)
    headings = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "max_us": "max"}
    columns = [column("calls", table["calls"]), *time_columns(table, headings)]
    columns += time_columns(table, {"total_us": "total"})
    ends = {"raised": "raised", "timed_out": "timed out", "unfinished": "unfinished"}
    columns += [column(text, table[name]) for name, text in ends.items() if table[name].any()]
    site = column("site", table["site"], one_line)._replace(is_name=True)
    return Table("call", table.index.tolist(), columns, more, site)


def _parts(analysis: Analysis, limit: int | None) -> Table:
    table, more = _limited(analysis.breakdown, limit)
    headings = {
        "latency_us": "latency", "transport_us": "transport", "queue_us": "queue",
        "served_us": "served", "on_cpu_us": "on CPU", "run_queue_us": "run queue",
        "off_cpu_us": "off CPU",
    }  # fmt: skip
    sums = "latency = transport + queue (an estimate) + served"
    if table["pending_us"].any():
        headings["pending_us"] = "pending"
        sums += " + pending"
    if table["on_cpu_us"].notna().any():
        sums += "; served = on CPU + run queue + off CPU"
    columns = [column("calls", table["calls"]), *time_columns(table, headings)]
    return Table("call", table.index.tolist(), columns, [*more, sums])


def _operators(analysis: Analysis, limit: int | None) -> Table:
    recipe = analysis.recipe_table
    return _recipe(analysis, recipe[~recipe["Name"].isin(analysis.latency.index)], limit)


def _recipe(analysis: Analysis, every: pd.DataFrame, limit: int | None) -> Table:
    is_merged = every["Node ID"].nunique() > MOST_LISTED
    table, more = _limited(of_all_ranks(every) if is_merged else every, limit)
    columns = []
    for name in ("Self CPU", "CPU total"):
        columns.append(column(f"{name} %", table[f"{name} %"] / 100, share))
        columns += time_columns(table, {name: name})
    columns += [
        *time_columns(table, {"CPU time avg": "CPU time avg"}),
        column("# of Calls", table["# of Calls"]),
        column("# of ranks" if is_merged else "Node ID", table["Node ID"]),
    ]
    rows = "each row is of all ranks" if is_merged else "Node ID: rank"
    more.append(f"As in PyTorch's recipe, CPU total is the time from start to end; {rows}")
    more += analysis.of_known_operators
    return Table("Name", table["Name"].tolist(), columns, more)


def _path(analysis: Analysis, limit: int | None) -> Table:
    path = analysis.critical_path
    if limit:
        large = (path["share"] >= LEAST_SHARE) | (path["ci_high"] >= LEAST_SHARE)
        path = path[large] if large.any() else path
    small = len(analysis.critical_path) - len(path)
    table, more = _limited(path, limit)
    rows = zip(table["part"], table["process"], table["function"], strict=True)
    names = [
        f"{part}: {process}" if part in _OF_NO_CALL else f"{part}: {of or 'to_here'} on {process}"
        for part, process, of in rows
    ]
    intervals = [
        "" if pd.isna(low) else f"{share(low)} to {share(high)}"
        for low, high in zip(table["ci_low"], table["ci_high"], strict=True)
    ]
    columns = [column("share of time", table["share"], share), Column("95 % interval", intervals)]
    meant = [f"{part}: {meaning}" for part, meaning in PARTS.items() if part in set(table["part"])]
    if small:
        more.append(f"{plural(small, 'part')} left out: less than {percent(LEAST_SHARE)}")
    return Table("part", names, columns, [*more, *meant])


def _threads(analysis: Analysis, limit: int | None) -> Table:
    every = analysis.parallelism.sort_values("mean", ascending=False, kind="stable")
    table, notes = _limited(every, limit)
    columns = [
        column("threads", table["threads"]),
        column("mean", table["mean"], decimal),
        column("busy", table["busy_fraction"], share),
        column("while busy", table["mean_while_busy"], decimal),
        column("max", table["max"]),
        column("efficiency", table["efficiency"], share),
        column("calls", table["calls"].astype("Int64").mask(table["calls"] == 0)),
    ]
    keys = list(zip(table["source"], table["server"], strict=True))
    names = [f"{server}, {SOURCES[source]}" for source, server in keys]
    for key, name, most in zip(keys, names, table["max"], strict=True):
        if most <= 1:
            # The share of the time that it was busy says it all.
            continue
        at_level, use = (
            frame[(frame["source"] == key[0]) & (frame["server"] == key[1])]
            for frame in (analysis.levels, analysis.thread_use)
        )
        shares = zip(at_level["level"], at_level["share"], strict=True)
        by_level = [f"{level}: {share(of_time)}" for level, of_time in shares]
        busiest = use["busy_fraction"].sort_values(ascending=False)
        notes += [
            name,
            f"  time by threads at work: {first_of(by_level, MOST_LISTED)}",
            f"  time at work by thread: {first_of([*map(share, busiest)], MOST_LISTED)}",
        ]
    return Table("server", names, columns, [*notes, *analysis.of_known_operators])


def _changes(analysis: Analysis, limit: int | None) -> Table:
    from tuner.present.changes import of_callers, table_of  # late: see `Analysis.of`

    names, columns, notes = table_of(analysis.changes, limit, analysis.changes_left_out)
    return Table("change", names, columns, [*notes, *of_callers(analysis.callers)])


BY_NAME: Mapping[TableName, tuple[str, str, Callable[[Analysis, int | None], Table]]] = {
    "calls": ("Latency of calls", "the trace holds no calls", _latency),
    "parts": (
        "Where the time of a call goes, on average",
        "no call is known on its client's side and on its server's",
        _parts,
    ),
    "recipe": (
        "Time by call and by operator",
        "the trace holds no operators, and no call that ended",
        lambda analysis, limit: _recipe(analysis, analysis.recipe_table, limit),
    ),
    "operators": ("Time by operator", "the trace holds no operators", _operators),
    "path": (
        "The critical path: what the driver waited for, and what that waited for in turn",
        "no call ended",
        _path,
    ),
    "threads": (
        "Parallelism of each server: its threads at work",
        "the trace does not show any thread at work",
        _threads,
    ),
    "changes": ("What changes of the program would do", "no change can be forecast", _changes),
}
"""Of each table its title, why there is none, and its rows."""


def column(heading: str, values: pd.Series, form: Callable[[Any], str] = "{:,}".format) -> Column:
    """A column of numbers, each written by `form`; empty where one is unknown."""
    return Column(heading, ["" if pd.isna(value) else form(value) for value in values])


def time_columns(table: pd.DataFrame, headings: Mapping[str, str]) -> list[Column]:
    """Columns of times, from microseconds, under their headings in the unit of the largest."""
    largest = float(table[list(headings)].max().max())
    unit, us = next((each for each in _UNITS if largest / each[1] < _LARGEST), _UNITS[-1])
    return [
        column(f"{heading} ({unit})", table[name] / us, decimal)
        for name, heading in headings.items()
    ]

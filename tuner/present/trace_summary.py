"""What `record` and `analyze` print of a trace: one screen, a table by its name, or all of it."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd
from rich.cells import cell_len
from rich.console import Console

from tuner.present.analysis import SOURCES, Analysis
from tuner.present.terminal import Part, height_of, line, paragraph, print_parts
from tuner.present.text_table import Column, text_table
from tuner.text import decimal, first_of, one_line, percent, plural, share, three_digits
from tuner.trace.analyze.diagnosis_rules import short_time
from tuner.trace.analyze.path_walk import PARTS
from tuner.trace.analyze.recipe_table import of_all_ranks
from tuner.trace.analyze.server_parallelism import window
from tuner.trace.model.trace import RECORDERS, Trace

TableName = Literal["calls", "parts", "recipe", "operators", "path", "threads", "changes"]
TABLES: tuple[TableName, ...] = get_args(TableName)
MOST_LISTED = 12
"""Levels, threads, ranks that are listed one by one; of more ranks a name has one row."""
LEAST_SHARE = 0.005
"""Parts of the critical path that take less of the time, and whose interval ends below that too,
are not listed where rows are limited."""
_OF_NO_CALL = ("caller", "backward")  # other parts without a function are of a fetch
_MOST_LINES = 30  # of one screen
_MOST_CALLS, _LEAST_CALLS, _MOST_SERVERS = 10, 3, 4
_MOST_NOTES = 2  # of two lines each
_MOST_DIAGNOSIS = 420
"""Characters of a diagnosis on one screen; its first sentence is there in any case."""
_NEAR_LIMIT = 0.5
"""A call that took this share of its time limit is told of on one screen."""
_UNITS = (("us", 1.0), ("ms", 1e3), ("s", 1e6))
_LARGEST = 1e4
"""From here on a time is given in the next larger unit."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What to print of a trace."""

    whole: bool = False
    """All there is, not one screen of it."""
    tables: Sequence[TableName] = ()
    """These tables alone."""
    row_limit: int | None = None
    """The most rows of a table; None: all."""


def print_trace(
    analysis: Analysis,
    console: Console,
    shown: Shown,
    searches: Sequence[str] = (),
    files: Sequence[str] = (),
) -> None:
    """Print what the trace tells, the diagnosis first.

    `searches` are the commands that try what the diagnosis suggests, where they are known, and
    `files` is what is said of the files that were written, a line each.
    """
    if shown.tables:
        parts = [part for name in shown.tables for part in _table(analysis, name, console, shown)]
    elif shown.whole:
        parts = [*_whole(analysis, console, shown, searches)]
    else:
        parts = [*_brief(analysis, console, searches, len(files))]
    print_parts([*parts, *map(line, files)], console)


def _brief(
    analysis: Analysis, console: Console, searches: Sequence[str], files: int
) -> Iterator[Part]:
    """The diagnosis, the calls, the servers, and what the trace is, on one screen."""
    width = console.width
    above = [*_diagnosis(analysis, _MOST_DIAGNOSIS), *_searches(searches[:1])]
    above += _forecast(analysis, width)
    below = [*_servers(analysis, width), line(""), *_notes(analysis, width)]
    used = files + sum(height_of(part, width) for part in [*above, *below])
    rows = max(_LEAST_CALLS, min(_MOST_CALLS, _MOST_LINES - used - 5))
    yield from above
    if not analysis.latency.empty:
        yield line("")
        yield from map(line, _calls(analysis, rows).lines(width))
    yield from below


def _whole(
    analysis: Analysis, console: Console, shown: Shown, searches: Sequence[str]
) -> Iterator[Part]:
    yield from [*_diagnosis(analysis), *_searches(searches)]
    yield from _forecast(analysis, console.width)
    said = [role.text for role in analysis.least_threads if not role.is_deadlock]
    if analysis.slowest_call is not None:
        said.append(analysis.slowest_call.text)
    yield from map(paragraph, filter(None, said))
    if not (analysis.trace.calls.empty and analysis.trace.operators.empty):
        for name in TABLES:
            if name != "operators":  # they are in the recipe's table, too
                yield line("")
                yield from _table(analysis, name, console, shown)
    yield line("")
    yield from map(paragraph, _facts(analysis.trace))
    yield from (paragraph(f"note: {loss}", "yellow") for loss in analysis.trace.losses)


def _diagnosis(analysis: Analysis, most: int | None = None) -> Iterator[Part]:
    """What stops a program, and what makes it slow, in so many characters."""
    yield from (paragraph(each, "yellow") for each in analysis.of_busy_machine)
    yield from (paragraph(each, "bold") for each in analysis.of_deadlocks)
    kept: list[str] = []
    has_limit = False
    for sentence in analysis.diagnosis.sentences:
        if most and has_limit and len(" ".join([*kept, sentence])) > most:
            break
        kept.append(sentence)
        has_limit = has_limit or " limit" in sentence
    yield paragraph(" ".join(kept), "bold")
    slowest = analysis.slowest_call
    if most and slowest is not None and slowest.took_s >= _NEAR_LIMIT * slowest.timeout_s:
        yield paragraph(slowest.text)


def _searches(searches: Sequence[str]) -> Iterator[Part]:
    return (line(f"Try: {search}") for search in searches)


def _forecast(analysis: Analysis, width: int) -> Iterator[Part]:
    if analysis.what_if or analysis.changes:
        from tuner.present.what_if import forecast_parts  # late: see `Analysis.of`

        # What a word means names no cause.
        causes = [s for s in analysis.diagnosis.sentences if not s.startswith("Off the CPU means")]
        yield from forecast_parts(
            analysis.trace, analysis.what_if, analysis.changes, width,
            is_asked=analysis.is_asked, diagnosed=" ".join(causes),
        )  # fmt: skip


def _notes(analysis: Analysis, width: int) -> Iterator[Part]:
    losses = analysis.trace.losses
    for loss in losses[:_MOST_NOTES]:
        yield paragraph(
            textwrap.shorten(f"note: {loss}", 2 * width - 10, placeholder=" …"), "yellow"
        )
    yield paragraph(next(_facts(analysis.trace)))
    if any(each.by != "file" for each in analysis.trace.rank_files):
        yield from map(paragraph, analysis.trace.files_of_ranks(MOST_LISTED))
    yield paragraph(f"More: --all, or --table {'|'.join(TABLES)}")


def _facts(trace: Trace) -> Iterator[str]:
    opened, closed = window(trace)
    held = [plural(len(trace.calls), "call"), plural(len(trace.operators), "operator")]
    if trace.steps is not None:
        held.insert(0, plural(trace.steps, "step"))
    ranks = first_of([rank.name for rank in trace.ranks], MOST_LISTED)
    number = plural(max(len(trace.ranks), trace.world_size or 0), "rank")
    if (trace.world_size or 0) > len(trace.ranks):
        number = f"{len(trace.ranks)} of {number}"
    yield (
        f"Recorded by {RECORDERS[trace.source]}: {number} ({ranks}), "
        f"{', '.join(held)}, {short_time((closed - opened) / 1e3)}."
    )
    yield from trace.files_of_ranks(MOST_LISTED)
    if trace.tracing_overhead is not None:
        overhead = three_digits(trace.tracing_overhead)
        yield f"Tracing overhead: a traced step took {overhead} times as long as an untraced one."
    if trace.clock_error_ns:
        yield f"The clocks of the ranks agree to within {short_time(trace.clock_error_ns / 1e3)}."


def _table(analysis: Analysis, name: TableName, console: Console, shown: Shown) -> Iterator[Part]:
    """A table of the trace under its title, or why there is none."""
    title, missing, table_of = _TABLES[name]
    table = table_of(analysis, shown.row_limit)
    if table.names:
        yield from (line(title, "bold"), *map(line, table.lines(console.width)))
    else:
        yield paragraph(f"{title}: none, because {missing}.", "dim")


class _Table(NamedTuple):
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
    return table.head(limit), [f"{limit} of {len(table)} rows; --row-limit 0 shows all"]


def _calls(analysis: Analysis, most: int) -> _Table:
    """The calls, by their total time: how long they took, and where that went, on average."""
    every = analysis.latency.join(analysis.breakdown.drop(columns="calls"))
    table, left = every.head(most), len(every) - most
    more = [f"and {left} more"] if left > 0 else []
    columns = [_column("calls", table["calls"])]
    headings = {
        "p50_us": "p50", "p99_us": "p99", "total_us": "total", "transport_us": "transport",
        "queue_us": "queue", "served_us": "served", "on_cpu_us": "on CPU",
    }  # fmt: skip
    columns += time_columns(table, headings)
    failed = table["failed"] + table["unfinished"]
    columns += [_column("failed", failed)] if failed.any() else []
    return _Table("call", _short_names(table.index.tolist()), columns, more)


def _latency(analysis: Analysis, limit: int | None) -> _Table:
    table, more = _limited(analysis.latency, limit)
    headings = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "max_us": "max"}
    columns = [_column("calls", table["calls"]), *time_columns(table, headings)]
    columns += time_columns(table, {"total_us": "total"})
    ends = {"raised": "raised", "timed_out": "timed out", "unfinished": "unfinished"}
    columns += [_column(text, table[name]) for name, text in ends.items() if table[name].any()]
    site = _column("site", table["site"], one_line)._replace(is_name=True)
    return _Table("call", table.index.tolist(), columns, more, site)


def _parts(analysis: Analysis, limit: int | None) -> _Table:
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
    columns = [_column("calls", table["calls"]), *time_columns(table, headings)]
    return _Table("call", table.index.tolist(), columns, [*more, sums])


def _short_names(names: Sequence[str]) -> list[str]:
    """The names of calls without `rpc_async#` and the like, where they differ all the same."""
    short = [name.partition("#")[2] or name for name in names]
    return short if len({*short}) == len({*names}) else [*names]


def _servers(analysis: Analysis, width: int) -> Iterator[Part]:
    """A line per server, or, where none is known, per process with operators; the busiest first."""
    of_calls = analysis.parallelism[analysis.parallelism["source"] == "calls"]
    every = analysis.parallelism if of_calls.empty else of_calls
    if every.empty:
        return
    table = every.sort_values("mean", ascending=False, kind="stable")
    columns = [
        _column("threads", table["threads"]),
        _column("parallelism", table["mean_while_busy"], decimal),
        _column("max", table["max"]),
        _column("busy", table["busy_fraction"], share),
        _column("calls", table["calls"].astype("Int64").mask(table["calls"] == 0)),
    ]
    heading = "in operators" if of_calls.empty else "server"
    lines = _Table(heading, table["server"].tolist(), columns).lines(width)
    yield from map(line, ["", *lines[: _MOST_SERVERS + 2]])
    if len(table) > _MOST_SERVERS:
        yield line(f"and {len(table) - _MOST_SERVERS} more")


def _operators(analysis: Analysis, limit: int | None) -> _Table:
    recipe = analysis.recipe_table
    return _recipe(analysis, recipe[~recipe["Name"].isin(analysis.latency.index)], limit)


def _recipe(analysis: Analysis, every: pd.DataFrame, limit: int | None) -> _Table:
    is_merged = every["Node ID"].nunique() > MOST_LISTED
    table, more = _limited(of_all_ranks(every) if is_merged else every, limit)
    columns = []
    for name in ("Self CPU", "CPU total"):
        columns.append(_column(f"{name} %", table[f"{name} %"] / 100, share))
        columns += time_columns(table, {name: name})
    columns += [
        *time_columns(table, {"CPU time avg": "CPU time avg"}),
        _column("# of Calls", table["# of Calls"]),
        _column("# of ranks" if is_merged else "Node ID", table["Node ID"]),
    ]
    rows = "each row is of all ranks" if is_merged else "Node ID: rank"
    more.append(f"As in PyTorch's recipe, CPU total is the time from start to end; {rows}")
    more += analysis.of_known_operators
    return _Table("Name", table["Name"].tolist(), columns, more)


def _path(analysis: Analysis, limit: int | None) -> _Table:
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
    columns = [_column("share of time", table["share"], share), Column("95 % interval", intervals)]
    meant = [f"{part}: {meaning}" for part, meaning in PARTS.items() if part in set(table["part"])]
    if small:
        more.append(f"{plural(small, 'part')} left out: less than {percent(LEAST_SHARE)}")
    return _Table("part", names, columns, [*more, *meant])


def _threads(analysis: Analysis, limit: int | None) -> _Table:
    every = analysis.parallelism.sort_values("mean", ascending=False, kind="stable")
    table, notes = _limited(every, limit)
    columns = [
        _column("threads", table["threads"]),
        _column("mean", table["mean"], decimal),
        _column("busy", table["busy_fraction"], share),
        _column("while busy", table["mean_while_busy"], decimal),
        _column("max", table["max"]),
        _column("efficiency", table["efficiency"], share),
        _column("calls", table["calls"].astype("Int64").mask(table["calls"] == 0)),
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
    return _Table("server", names, columns, [*notes, *analysis.of_known_operators])


def _changes(analysis: Analysis, limit: int | None) -> _Table:
    from tuner.present.changes import table_of  # late: see `Analysis.of`

    return _Table("change", *table_of(analysis.changes, limit))


_TABLES: Mapping[TableName, tuple[str, str, Callable[[Analysis, int | None], _Table]]] = {
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


def _column(heading: str, values: pd.Series, form: Callable[[Any], str] = "{:,}".format) -> Column:
    """A column of numbers, each written by `form`; empty where one is unknown."""
    return Column(heading, ["" if pd.isna(value) else form(value) for value in values])


def time_columns(table: pd.DataFrame, headings: Mapping[str, str]) -> list[Column]:
    """Columns of times, from microseconds, under their headings in the unit of the largest."""
    largest = float(table[list(headings)].max().max())
    unit, us = next((each for each in _UNITS if largest / each[1] < _LARGEST), _UNITS[-1])
    return [
        _column(f"{heading} ({unit})", table[column] / us, decimal)
        for column, heading in headings.items()
    ]

"""What `record` and `analyze` print of a trace: one screen, a table by its name, or all of it."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console

from tuner.present.analysis import Analysis
from tuner.present.terminal import Part, height_of, line, paragraph, print_parts
from tuner.present.text_table import shown_of
from tuner.present.trace_tables import (
    BY_NAME,
    MOST_LISTED,
    TABLES,
    Table,
    TableName,
    column,
    time_columns,
)
from tuner.text import decimal, first_of, plural, share, three_digits
from tuner.trace.analyze.diagnosis_rules import short_time
from tuner.trace.analyze.server_parallelism import window
from tuner.trace.model.trace import RECORDERS, Trace

_MOST_LINES = 30  # of one screen
_MOST_CALLS, _LEAST_CALLS, _MOST_SERVERS = 10, 3, 4
_MOST_NOTES = 2  # of two lines each
_MOST_DIAGNOSIS = 420
"""Characters of a diagnosis on one screen; its first sentence is there in any case."""
_NEAR_LIMIT = 0.5
"""A call that took this share of its time limit is told of on one screen."""


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
    if analysis.what_if or analysis.changes or analysis.changes_left_out:
        from tuner.present.what_if import forecast_parts  # late: see `Analysis.of`

        # What a word means names no cause.
        causes = [s for s in analysis.diagnosis.sentences if not s.startswith("Off the CPU means")]
        yield from forecast_parts(
            analysis.trace, analysis.what_if, analysis.changes, width,
            is_asked=analysis.is_asked, diagnosed=" ".join(causes),
            left_out=analysis.changes_left_out,
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
    title, missing, table_of = BY_NAME[name]
    table = table_of(analysis, shown.row_limit)
    if table.names:
        yield from (line(title, "bold"), *map(line, table.lines(console.width)))
    else:
        yield paragraph(f"{title}: none, because {missing}.", "dim")


def _calls(analysis: Analysis, most: int) -> Table:
    """The calls, by their total time: how long they took, and where that went, on average."""
    every = analysis.latency.join(analysis.breakdown.drop(columns="calls"))
    table = every.head(shown_of(len(every), most))
    left = len(every) - len(table)
    more = [f"and {left} more"] if left else []
    columns = [column("calls", table["calls"])]
    headings = {
        "p50_us": "p50", "p99_us": "p99", "total_us": "total", "transport_us": "transport",
        "queue_us": "queue", "served_us": "served", "on_cpu_us": "on CPU",
    }  # fmt: skip
    columns += time_columns(table, headings)
    failed = table["failed"] + table["unfinished"]
    columns += [column("failed", failed)] if failed.any() else []
    return Table("call", _short_names(table.index.tolist()), columns, more)


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
        column("threads", table["threads"]),
        column("parallelism", table["mean_while_busy"], decimal),
        column("max", table["max"]),
        column("busy", table["busy_fraction"], share),
        column("calls", table["calls"].astype("Int64").mask(table["calls"] == 0)),
    ]
    heading = "in operators" if of_calls.empty else "server"
    lines = Table(heading, table["server"].tolist(), columns).lines(width)
    shown = shown_of(len(table), _MOST_SERVERS)
    yield from map(line, ["", *lines[: shown + 2]])
    if len(table) > shown:
        yield line(f"and {len(table) - shown} more")

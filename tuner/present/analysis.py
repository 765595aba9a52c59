"""What `analyze` shows of a trace: all of it as one value, as text and as JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from tuner.text import decimal, first_of, one_line, percent, plural, share, three_digits
from tuner.trace.analyze.call_times import breakdown, latency
from tuner.trace.analyze.critical_path import critical_path
from tuner.trace.analyze.diagnosis import Diagnosis, diagnose
from tuner.trace.analyze.failed_calls import SlowestCall, slowest_call
from tuner.trace.analyze.headroom import LeastThreads, least_threads
from tuner.trace.analyze.path_walk import PARTS
from tuner.trace.analyze.recipe_table import of_all_ranks, recipe_table
from tuner.trace.analyze.server_parallelism import Source, levels, parallelism, thread_use, window
from tuner.trace.model.trace import RANKS_BY, RECORDERS, Trace

FORMAT = 2
SOURCES: dict[Source, str] = {"calls": "serving calls", "operators": "inside operators"}
LEAST_SHARE = 0.005
"""Parts of the critical path that take less of the time, and whose interval ends below that too,
are not listed where rows are limited."""
MOST_LISTED = 12
"""Levels, threads, ranks that are listed one by one; of more ranks a name has one row."""
_GAP = "  "
_UNITS = (("us", 1.0), ("ms", 1e3), ("s", 1e6))
_LARGEST = 1e4
"""From here on a time is given in the next larger unit."""

_Column = tuple[str, Sequence[str]]
"""A heading, which may have several lines, and the cells below it."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """A trace and its tables; times in microseconds."""

    trace: Trace
    recipe_table: pd.DataFrame
    latency: pd.DataFrame
    breakdown: pd.DataFrame
    parallelism: pd.DataFrame
    """The rows of both sources; the column `source` says which."""
    levels: pd.DataFrame
    thread_use: pd.DataFrame
    critical_path: pd.DataFrame
    diagnosis: Diagnosis
    least_threads: list[LeastThreads]
    slowest_call: SlowestCall | None

    @classmethod
    def of(cls, trace: Trace, roles: Sequence[tuple[str, str]] = ()) -> "Analysis":
        """All tables of a trace, and its diagnosis; for `roles` see `tuner.roles.role_of`."""
        return cls(
            trace=trace,
            recipe_table=recipe_table(trace),
            latency=latency(trace.calls),
            breakdown=breakdown(trace.calls),
            parallelism=_of_both_sources(trace, parallelism),
            levels=_of_both_sources(trace, levels),
            thread_use=_of_both_sources(trace, thread_use),
            critical_path=critical_path(trace),
            diagnosis=diagnose(trace, roles),
            least_threads=least_threads(trace, roles),
            slowest_call=slowest_call(trace),
        )

    def to_json(self) -> dict[str, Any]:
        """The document of `--json`: tables as lists of records, null where a number is unknown."""
        trace, found = self.trace, asdict(self.diagnosis)
        return {
            "format": FORMAT,
            "source": trace.source,
            "ranks": trace.ranks,
            "rank_files": trace.rank_files,
            "base_time_ns": trace.base_time_ns,
            "window_ns": window(trace),
            "steps": trace.steps,
            "call_count": len(trace.calls),
            "operator_count": len(trace.operators),
            "clock_error_ns": trace.clock_error_ns,
            "tracing_overhead": trace.tracing_overhead,
            "losses": trace.losses,
            "recipe_table": _records(self.recipe_table),
            "latency": _records(self.latency.reset_index()),
            "breakdown": _records(self.breakdown.reset_index()),
            "parallelism": _records(self.parallelism),
            "levels": _records(self.levels),
            "thread_use": _records(self.thread_use),
            "critical_path": _records(self.critical_path),
            "diagnosis": {name: found[name] for name in ("rule", "sentences", "suggestions")},
            "least_threads": [
                {**asdict(role), "least": role.least, "at_least": role.at_least}
                for role in self.least_threads
            ],
            "slowest_call": None if self.slowest_call is None else asdict(self.slowest_call),
        }


def print_analysis(
    analysis: Analysis,
    console: Console,
    row_limit: int | None,
    picture: Path | None,
    searches: Sequence[str] = (),
) -> None:
    """Print what the trace is, its tables, and the diagnosis.

    Args:
        analysis: The trace and its tables.
        console: Where to print.
        row_limit: The most rows of a table; None: all.
        picture: The timeline's file, if one was drawn.
        searches: The commands that try what the diagnosis suggests, where they are known.
    """

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=not console.is_terminal)

    for fact in _facts(analysis.trace):
        say(fact)
    for loss in analysis.trace.losses:
        say(f"note: {loss}", "yellow")
    is_empty = analysis.trace.calls.empty and analysis.trace.operators.empty
    for title, lines, missing in () if is_empty else _sections(analysis, console.width, row_limit):
        console.print()
        if lines:
            console.print(Text(title, style="bold"))
            # Lines are as long as they have to be: numbers must not be folded.
            console.print(Text("\n".join(lines)), soft_wrap=True)
        else:
            say(f"{title}: none, because {missing}.", "dim")
    console.print()
    # What stops a program comes before what makes it slow.
    deadlocks = [role.text for role in analysis.least_threads if role.is_deadlock]
    say("\n".join([*deadlocks, analysis.diagnosis.text]), "bold")
    for search in searches:
        say(f"To try it: {search}")
    sentences = [role.text for role in analysis.least_threads if not role.is_deadlock]
    if analysis.slowest_call is not None:
        sentences.append(analysis.slowest_call.text)
    if any(sentences):
        console.print()
        say("\n".join(filter(None, sentences)))
    if picture is not None:
        console.print()
        say(f"Timeline: {picture}")


def _facts(trace: Trace) -> Iterator[str]:
    opened, closed = window(trace)
    held = [plural(len(trace.calls), "call"), plural(len(trace.operators), "operator")]
    if trace.steps is not None:
        held.insert(0, plural(trace.steps, "step"))
    ranks = first_of([rank.name for rank in trace.ranks], MOST_LISTED)
    yield (
        f"Recorded by {RECORDERS[trace.source]}: {plural(len(trace.ranks), 'rank')} ({ranks}) for "
        f"{three_digits((closed - opened) / 1e6)} ms; {', '.join(held)}."
    )
    if known := _ranks_of_files(trace):
        said = (f"{first_of(each, MOST_LISTED)}, {how}" for how, each in known.items())
        yield f"Ranks: {'; '.join(said)}."
    if trace.tracing_overhead is not None:
        overhead = three_digits(trace.tracing_overhead)
        yield f"Tracing overhead: a traced step took {overhead} times as long as an untraced one."
    if trace.clock_error_ns:
        error_us = three_digits(trace.clock_error_ns / 1e3)
        yield f"Times of different ranks are comparable to within {error_us} us."


def _ranks_of_files(trace: Trace) -> dict[str, list[str]]:
    """Which of several files is which rank, by how that is known."""
    files = {each.file for each in trace.rank_files}
    is_short = len({Path(file).name for file in files}) == len(files)
    known: dict[str, list[str]] = {}
    for rank in trace.rank_files if len(files) > 1 else ():
        name = Path(rank.file).name if is_short else rank.file
        known.setdefault(RANKS_BY[rank.by], []).append(f"{rank.rank} is {name}")
    return known


def _sections(
    analysis: Analysis, width: int, row_limit: int | None
) -> Iterator[tuple[str, list[str], str]]:
    """The title of each table, its lines, and why there are none, where there are none."""
    no_calls = "the trace holds no calls" if analysis.trace.calls.empty else ""
    recipe = analysis.recipe_table
    is_merged = recipe["Node ID"].nunique() > MOST_LISTED
    path = analysis.critical_path
    if row_limit:
        large = (path["share"] >= LEAST_SHARE) | (path["ci_high"] >= LEAST_SHARE)
        path = path[large] if large.any() else path
    small = len(analysis.critical_path) - len(path)
    tables: Sequence[tuple[str, pd.DataFrame, Callable[[pd.DataFrame], list[str]], str]] = (
        (
            "Time by call and by operator",
            of_all_ranks(recipe) if is_merged else recipe,
            lambda table: _recipe_lines(table, width, is_merged=is_merged),
            "the trace holds no operators, and no call that ended",
        ),
        (
            "Latency of calls",
            analysis.latency,
            lambda table: _latency_lines(table, width),
            no_calls,
        ),
        (
            "Where the time of a call goes, on average",
            analysis.breakdown,
            lambda table: _breakdown_lines(table, width),
            no_calls or "no call is known on its client's side and on its server's",
        ),
        (
            "The critical path: what the driver waited for, and what that waited for in turn",
            path,
            lambda table: _path_lines(table, width, small=small),
            no_calls or "no call ended",
        ),
        (
            "Parallelism of each server: its threads at work",
            analysis.parallelism.sort_values("mean", ascending=False, kind="stable"),
            lambda table: _parallelism_lines(analysis, table, width),
            "the trace does not show any thread at work",
        ),
    )
    for title, table, lines_of, missing in tables:
        lines = [] if table.empty else lines_of(table.head(row_limit or len(table)))
        if row_limit and len(table) > row_limit:
            lines.append(f"{row_limit} of {len(table)} rows; --row-limit shows more")
        yield title, lines, missing


def _recipe_lines(table: pd.DataFrame, width: int, *, is_merged: bool = False) -> list[str]:
    columns = [
        _column("Self\nCPU %", table["Self CPU %"] / 100, share),
        *time_columns(table, {"Self CPU": "Self\nCPU"}),
        _column("CPU\ntotal %", table["CPU total %"] / 100, share),
        *time_columns(table, {"CPU total": "CPU\ntotal"}),
        *time_columns(table, {"CPU time avg": "CPU time\navg"}),
        _column("# of\nCalls", table["# of Calls"]),
        _column("# of\nranks" if is_merged else "Node\nID", table["Node ID"]),
    ]
    rows = "each row is of all ranks" if is_merged else "Node ID: rank"
    return [
        *named_rows("Name", table["Name"].tolist(), columns, width),
        f"As in PyTorch's recipe, CPU total is the time from start to end; {rows}",
    ]


def _latency_lines(table: pd.DataFrame, width: int) -> list[str]:
    headings = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "max_us": "max"}
    columns = [_column("calls", table["calls"]), *time_columns(table, headings)]
    columns += time_columns(table, {"total_us": "total"})
    for name, heading in (("raised", "raised"), ("timed_out", "timed\nout"), ("unfinished",) * 2):
        if table[name].any():
            columns.append(_column(heading, table[name]))
    return named_rows("call", table.index.tolist(), columns, width)


def _breakdown_lines(table: pd.DataFrame, width: int) -> list[str]:
    headings = {
        "latency_us": "latency",
        "transport_us": "transport",
        "queue_us": "queue",
        "served_us": "served",
        "on_cpu_us": "on\nCPU",
        "run_queue_us": "run\nqueue",
        "off_cpu_us": "off\nCPU",
    }
    sums = "latency = transport + queue (an estimate) + served"
    if table["pending_us"].any():
        headings["pending_us"] = "pending"
        sums += " + pending"
    if table["on_cpu_us"].notna().any():
        sums += "; served = on CPU + run queue + off CPU"
    columns = [_column("calls", table["calls"]), *time_columns(table, headings)]
    return [*named_rows("call", table.index.tolist(), columns, width), sums]


def _parallelism_lines(analysis: Analysis, table: pd.DataFrame, width: int) -> list[str]:
    columns = [
        _column("threads", table["threads"]),
        _column("mean", table["mean"], decimal),
        _column("busy", table["busy_fraction"], share),
        _column("while\nbusy", table["mean_while_busy"], decimal),
        _column("max", table["max"]),
        _column("efficiency", table["efficiency"], share),
        _column("calls", table["calls"].where(table["calls"] > 0)),
    ]
    keys = list(zip(table["source"], table["server"], strict=True))
    names = [f"{server}, {SOURCES[source]}" for source, server in keys]
    lines = named_rows("server", names, columns, width)
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
        lines += [
            name,
            f"  time by threads at work: {first_of(by_level, MOST_LISTED)}",
            f"  time at work by thread: {first_of([*map(share, busiest)], MOST_LISTED)}",
        ]
    return lines


def _path_lines(table: pd.DataFrame, width: int, *, small: int) -> list[str]:
    names = [
        f"{part}: {function} on {process}" if function else f"{part}: {process}"
        for part, process, function in zip(
            table["part"], table["process"], table["function"], strict=True
        )
    ]
    columns = [
        _column("share of\nthe time", table["share"], share),
        _column("95 % interval:\nfrom", table["ci_low"], share),
        _column("\nto", table["ci_high"], share),
    ]
    meant = [f"{part}: {meaning}" for part, meaning in PARTS.items() if part in set(table["part"])]
    lines = [*named_rows("part", names, columns, width), *meant]
    if small:
        least = percent(LEAST_SHARE)
        lines.append(
            f"{plural(small, 'part')} left out: less than {least}, even at the upper end of the "
            "interval; --row-limit 0 shows all"
        )
    return lines


def _column(heading: str, values: pd.Series, form: Callable[[Any], str] = "{:,}".format) -> _Column:
    """A column of numbers, each written by `form`; empty where one is unknown."""
    return heading, ["" if pd.isna(value) else form(value) for value in values]


def time_columns(table: pd.DataFrame, headings: Mapping[str, str]) -> list[_Column]:
    """Columns of times, from microseconds, under their headings in the unit of the largest."""
    largest = float(table[list(headings)].max().max())
    unit, us = next((each for each in _UNITS if largest / each[1] < _LARGEST), _UNITS[-1])
    return [
        _column(f"{heading}\n({unit})", table[column] / us, decimal)
        for column, heading in headings.items()
    ]


def named_rows(
    name: str, names: Sequence[str], columns: Sequence[_Column], width: int
) -> list[str]:
    """The lines of a table without its empty columns, at most so many characters wide.

    Where the names leave no room for the numbers, each name has a line of its own, above its
    numbers: a name is never cut, and a row of numbers is never broken.
    """
    names = [*map(one_line, names)]
    top, rows = _justified([column for column in columns if any(column[1])])
    longest = max(map(len, [name, *names]))
    if longest + len(top[0]) <= width:
        beside = [*[""] * (len(top) - 1), name, *names]
        texts = [f"{text:<{longest}}{line}" for text, line in zip(beside, top + rows, strict=True)]
        heading, body = texts[: len(top)], texts[len(top) :]
    else:
        heading = [name, *(_GAP + line for line in top)]
        pairs = zip(names, rows, strict=True)
        body = [line for text, numbers in pairs for line in (text, _GAP + numbers)]
    rule = "─" * min(width, max(map(len, heading + body)))
    return [*(line.rstrip() for line in heading), rule, *body]


def _justified(columns: Sequence[_Column]) -> tuple[list[str], list[str]]:
    """The lines of the headings, and those of the cells."""
    high = max(heading.count("\n") for heading, _ in columns) + 1
    filled = []
    for heading, cells in columns:
        lines = heading.split("\n")
        texts = [*[""] * (high - len(lines)), *lines, *cells]
        width = max(map(len, texts))
        filled.append([f"{_GAP}{text:>{width}}" for text in texts])
    text = ["".join(line) for line in zip(*filled, strict=True)]
    return text[:high], text[high:]


def _of_both_sources(trace: Trace, table: Callable[[Trace, Source], pd.DataFrame]) -> pd.DataFrame:
    parts = pd.concat({source: table(trace, source) for source in SOURCES}, names=["source"])
    return parts.reset_index("source").reset_index(drop=True)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    return [dict(zip(frame.columns, row, strict=True)) for row in rows]

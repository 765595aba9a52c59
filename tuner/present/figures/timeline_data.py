"""The timeline of a trace as data: the calls that threads served, or else operators, and when.

Where it is not known how calls were served, those under way from each client are shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from tuner.text import plural, three_digits
from tuner.trace.analyze.server_parallelism import window
from tuner.trace.analyze.time_spans import Spans, group_codes, open_over_time, united
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

MOST_CALLS, EXCERPT_CALLS = 150, 60
"""More served calls than this cannot be told apart: then an excerpt is shown."""
MOST_STRETCHES, EXCERPT_STRETCHES = 1500, 600
"""The same for stretches of operators, which need not be told apart."""
MOST_LANES = 64
"""Of more threads than this the busiest are shown."""
FINEST = 4000
"""Operators are drawn as one where the gap between them is less than 1 / FINEST of the width."""

NO_THREAD = -1
IN_OPERATORS = "in operators"
"""The name of the bars that are stretches of operators."""

BarKind = Literal["exact", "inferred", "unfinished", "operators"]


class Bar(NamedTuple):
    """What a thread did, of the timeline's `functions`; from the left edge, maybe negative."""

    start_ms: float
    end_ms: float
    what: str
    kind: BarKind


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One thread of a server."""

    label: str
    bars: tuple[Bar, ...]
    operators: tuple[tuple[float, float], ...] = ()
    """Start and end of its time inside operators, in milliseconds; empty if the bars are these."""


@dataclass(frozen=True, kw_only=True)
class ServerLanes:
    """One process: the calls that are under way to it and from it, and its threads."""

    label: str
    lanes: tuple[Lane, ...]
    in_flight: tuple[tuple[float, int], ...] = ()
    """From each time on, in milliseconds, how many calls are under way to it."""
    issued: tuple[tuple[float, int], ...] = ()
    """The same of its own calls; empty where it is known how calls were served."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A trace or an excerpt of it; without servers if the trace holds nothing to show."""

    title: str
    note: str
    """How much of the trace is shown."""
    start_ms: float = 0.0
    """The left edge, in milliseconds from the beginning of the trace's window."""
    length_ms: float = 0.0
    servers: tuple[ServerLanes, ...] = ()
    functions: tuple[str, ...] = ()
    """The functions of the bars, the one with the most time first."""
    steps: int | None = None
    """How many steps are shown; None unless each step makes the same number of calls."""

    @property
    def lanes(self) -> list[Lane]:
        """Those of all servers."""
        return [lane for server in self.servers for lane in server.lanes]


class _Excerpt(NamedTuple):
    start_ns: int
    end_ns: int
    note: str
    steps: int | None

    def part(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows whose time overlaps with the excerpt."""
        return frame[(frame["end_ns"] > self.start_ns) & (frame["start_ns"] < self.end_ns)]

    def ms(self, ns: float) -> float:
        """Milliseconds from the left edge."""
        return (ns - self.start_ns) / 1e6


def timeline(
    trace: Trace, title: str = "", *, steps: int | None = None, finest: int = FINEST
) -> Timeline:
    """What threads did in the trace or an excerpt; `finest` operators fit side by side."""
    work = _served_calls(trace)
    of_calls = not work.empty
    if of_calls:
        excerpt = _excerpt_of_calls(work, trace.steps, steps)
    else:
        work = _stretches(trace)
        # The calls are drawn too, as far as their clients saw them.
        shown = pd.concat([work, _issued_calls(trace)]).sort_values("start_ns", kind="stable")
        if shown.empty:
            return Timeline(title=title, note="no calls and no operators")
        kinds = [
            kind for kind, frame in (("operators", work), ("calls", trace.calls)) if len(frame)
        ]
        excerpt = _excerpt(shown, f"all {' and '.join(kinds)}")
    lanes = _busiest_lanes(work, excerpt)
    threads = len(work[["rank", "thread"]].drop_duplicates())
    omitted = f", the busiest {len(lanes)} of {threads} threads" if len(lanes) < threads else ""
    busy_ns = (work["end_ns"] - work["start_ns"]).groupby(work["what"]).sum()
    return Timeline(
        title=title,
        note=excerpt.note + omitted,
        start_ms=(excerpt.start_ns - window(trace)[0]) / 1e6,
        length_ms=excerpt.ms(excerpt.end_ns),
        servers=tuple(_Scene(trace, work, of_calls, excerpt, finest).servers(lanes)),
        functions=tuple(busy_ns.sort_values(ascending=False, kind="stable").index),
        steps=excerpt.steps,
    )


def _served_calls(trace: Trace) -> pd.DataFrame:
    """A row per call whose serving is known: its time on its thread, and the client's span."""
    calls = trace.calls[trace.calls["server_start_ns"].notna()]
    closed_ns = window(trace)[1]
    function = calls["function"].astype("str")
    inferred = (calls["link"] == "inferred").to_numpy(dtype=bool)
    kind = np.where(inferred, "inferred", "exact")
    return pd.DataFrame(
        {
            "rank": calls["server_rank"],
            "thread": calls["server_thread"].to_numpy(dtype=np.int64, na_value=NO_THREAD),
            "start_ns": calls["server_start_ns"].to_numpy(dtype=np.int64),
            "end_ns": calls["server_end_ns"].to_numpy(dtype=np.int64, na_value=closed_ns),
            "what": function.where(function != "", calls["kind"].astype("str")),
            "kind": np.where(calls["server_end_ns"].isna(), "unfinished", kind),
            "from_ns": calls["start_ns"],
            "until_ns": calls["end_ns"].to_numpy(dtype=np.int64, na_value=closed_ns),
        }
    )


def _stretches(trace: Trace) -> pd.DataFrame:
    """The columns of `_served_calls`, a row per stretch in which a thread was inside operators."""
    operators = trace.operators
    rank, thread = operators["rank"].to_numpy(), operators["thread"].to_numpy()
    code = group_codes((rank, thread))
    busy = united(Spans(code, operators["start_ns"].to_numpy(), operators["end_ns"].to_numpy()))
    of_code = pd.DataFrame({"rank": rank, "thread": thread}, index=code)
    stretches = of_code[~of_code.index.duplicated()].loc[busy.group].reset_index(drop=True)
    stretches["start_ns"] = stretches["from_ns"] = busy.start
    stretches["end_ns"] = stretches["until_ns"] = busy.end
    stretches["what"], stretches["kind"] = IN_OPERATORS, "operators"
    return stretches.sort_values("start_ns", kind="stable", ignore_index=True)


def _issued_calls(trace: Trace) -> pd.DataFrame:
    """The times of `_stretches`, a row per call as its client saw it."""
    start = trace.calls["start_ns"].to_numpy()
    end = trace.calls["end_ns"].to_numpy(dtype=np.int64, na_value=window(trace)[1])
    return pd.DataFrame({"start_ns": start, "end_ns": end, "from_ns": start, "until_ns": end})


def _excerpt_of_calls(work: pd.DataFrame, steps: int | None, most_steps: int | None) -> _Excerpt:
    """All calls, or some steps from the middle; or some calls, where steps differ in number."""
    count = len(work)
    each = count // steps if steps and count % steps == 0 else 0
    if steps and 0 < each <= MOST_CALLS:
        fitting = steps if count <= MOST_CALLS else max(1, EXCERPT_CALLS // each)
        shown = min(steps, fitting, most_steps or steps)
        first = (steps - shown) // 2
        start_ns, end_ns = _extent(work, first * each, shown * each)
        which = f"step {first + 1}" if shown == 1 else f"steps {first + 1} to {first + shown}"
        which = f"{which} of {steps}" if shown < steps else f"all {plural(steps, 'step')}"
        found = _Excerpt(start_ns, end_ns, f"{which}, {plural(shown * each, 'call')}", shown)
        # Steps that do not wait for their calls may be over before any is served.
        if not found.part(work).empty:
            return found
    if count <= MOST_CALLS:
        return _Excerpt(*_extent(work, 0, count), f"all {plural(count, 'served call')}", None)
    first = (count - EXCERPT_CALLS) // 2
    note = f"served calls {first + 1} to {first + EXCERPT_CALLS} of {count}"
    # As they are served: calls that are issued all together wait, and nothing runs in between.
    starts = work["start_ns"].sort_values().to_numpy()
    start_ns, end_ns = int(starts[first]), int(starts[first + EXCERPT_CALLS])
    return _Excerpt(start_ns, max(end_ns, start_ns + 1), note, None)


def _excerpt(work: pd.DataFrame, whole_note: str) -> _Excerpt:
    """All stretches, or some from the middle."""
    count = len(work)
    whole = _extent(work, 0, count)
    if count <= MOST_STRETCHES:
        return _Excerpt(*whole, whole_note, None)
    start_ns, end_ns = _extent(work, (count - EXCERPT_STRETCHES) // 2, EXCERPT_STRETCHES)
    lengths = (three_digits((end - start) / 1e6) for start, end in ((start_ns, end_ns), whole))
    return _Excerpt(start_ns, end_ns, "{} ms in the middle of {} ms".format(*lengths), None)


def _extent(work: pd.DataFrame, first: int, count: int) -> tuple[int, int]:
    """From the start of these rows to their end, or to the start of the row after them."""
    rows = work.iloc[first : first + count]
    start_ns = int(rows[["from_ns", "start_ns"]].to_numpy().min())
    if first + count < len(work):
        return start_ns, max(int(work["from_ns"].iloc[first + count]), start_ns + 1)
    return start_ns, max(int(rows[["until_ns", "end_ns"]].to_numpy().max()), start_ns + 1)


def _busiest_lanes(work: pd.DataFrame, excerpt: _Excerpt) -> pd.DataFrame:
    """The threads to show, by rank and thread: the busiest, where there are too many."""
    lanes = work[["rank", "thread"]].drop_duplicates()
    if len(lanes) > MOST_LANES:
        part = excerpt.part(work)
        busy_ns = (part["end_ns"] - part["start_ns"]).groupby([part["rank"], part["thread"]]).sum()
        lanes = busy_ns.nlargest(MOST_LANES).index.to_frame(index=False)
    return lanes.sort_values(["rank", "thread"], ignore_index=True)


class _Scene(NamedTuple):
    """What the lanes are made of."""

    trace: Trace
    work: pd.DataFrame
    of_calls: bool
    excerpt: _Excerpt
    finest: int

    def servers(self, lanes: pd.DataFrame) -> Iterator[ServerLanes]:
        bars, operators = (
            dict(list(self.excerpt.part(frame).groupby(["rank", "thread"])))
            for frame in (self.work, self.trace.operators)
        )
        none = self.work.iloc[:0]
        ranks = lanes["rank"].unique().tolist()
        if not self.of_calls:
            callers = self.trace.calls["client_rank"].value_counts().index[:MOST_LANES]
            ranks = sorted({*ranks, *callers.tolist()})
        for rank in ranks:
            threads = lanes.loc[lanes["rank"] == rank, "thread"].tolist()
            labels = _thread_labels(threads, process := self.trace.process(rank))
            shown = (
                Lane(
                    label=label,
                    bars=tuple(self._bars(bars.get((rank, thread), none))),
                    operators=tuple(self._operators(operators.get((rank, thread), none))),
                )
                for thread, label in zip(threads, labels, strict=True)
            )
            in_flight = tuple(self._in_flight("server_rank", rank))
            issued = () if self.of_calls else tuple(self._in_flight("client_rank", rank))
            label = self._server_label(rank, process)
            yield ServerLanes(label=label, lanes=tuple(shown), in_flight=in_flight, issued=issued)

    def _bars(self, part: pd.DataFrame) -> Iterator[Bar]:
        columns = part[["start_ns", "end_ns", "what", "kind"]]
        for start_ns, end_ns, what, kind in columns.itertuples(index=False, name=None):
            yield Bar(self.excerpt.ms(start_ns), self.excerpt.ms(end_ns), what, kind)

    def _operators(self, part: pd.DataFrame) -> Iterator[tuple[float, float]]:
        if not self.of_calls:
            return
        between_ns = (self.excerpt.end_ns - self.excerpt.start_ns) // self.finest
        start, end = part["start_ns"].to_numpy(), part["end_ns"].to_numpy() + between_ns
        busy = united(Spans(np.zeros_like(start), start, end))
        for start_ns, end_ns in zip(busy.start, busy.end - between_ns, strict=True):
            yield self.excerpt.ms(start_ns), self.excerpt.ms(end_ns)

    def _in_flight(self, side: str, rank: int) -> Iterator[tuple[float, int]]:
        """How many calls of a rank, on this side, are under way from the left edge to the right."""
        calls = self.trace.calls[self.trace.calls[side] == rank]
        if calls.empty:
            return
        ends = calls["end_ns"].to_numpy(dtype=np.int64, na_value=window(self.trace)[1])
        time, level = open_over_time(calls["start_ns"].to_numpy(), ends)
        edges = [self.excerpt.start_ns, self.excerpt.end_ns]
        first, after = np.searchsorted(time, edges, side="right")
        yield 0.0, int(level[first - 1]) if first else 0
        for at_ns, calls_now in zip(time[first:after], level[first:after], strict=True):
            yield self.excerpt.ms(at_ns), int(calls_now)

    def _server_label(self, rank: int, process: TraceRank) -> str:
        name, pool = process.name, process.num_worker_threads
        if pool is None:
            return name
        seen = self.work.loc[self.work["rank"] == rank, "thread"].nunique()
        if self.of_calls and seen < pool:
            return f"{name}: {seen} of its {pool} threads served calls"
        return f"{name}: {plural(pool, 'thread')}"


def _thread_labels(threads: Sequence[int], process: TraceRank) -> list[str]:
    """The names of the threads, with their ids where several have the same name."""
    known = dict(process.threads)
    names = [known.get(thread, "") or "thread" for thread in threads]
    return [
        "thread not known" if thread == NO_THREAD
        else f"{name} {thread}" if name == "thread" or names.count(name) > 1
        else name
        for thread, name in zip(threads, names, strict=True)
    ]  # fmt: skip

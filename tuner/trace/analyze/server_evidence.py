"""The numbers that a diagnosis follows from: what a trace shows of a server."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.server_parallelism import (
    parallelism,
    server_name,
    threads_at_work,
    threads_taken,
    window,
)
from tuner.trace.analyze.time_spans import Spans, Steps, group_codes, united
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

LONG_OPERATOR_NS = 30_000
"""An operator releases the GIL while it runs, but a shorter one ends before another thread has it:
two threads were no faster than one with multiplications of 2 us, and 1.9x faster with 40 us."""
MEASURED_SHARE = 0.8
"""CPU times speak for a server if they cover at least this share of its served time."""
UNCROWDED = 2 / 3
"""Calls are uncrowded if at most this share of the usual number of others ran beside them."""
ENOUGH_TO_COMPARE = 10
"""What fewer calls show may be chance."""


@dataclass(frozen=True, kw_only=True)
class Means:
    """Where the time of a call went, on average; the parts add up to the latency."""

    calls: int
    """How many calls: those that were served, and whose client waited for the answer."""
    latency_us: float
    transport_us: float
    queue_us: float
    served_us: float
    pending_us: float

    @property
    def queue_share(self) -> float:
        """The share of a call's latency in which it waited for a thread."""
        return self.queue_us / self.latency_us if self.latency_us > 0 else 0.0

    @property
    def served_share(self) -> float:
        """The share of a call's latency from its start on the server to its complete result."""
        served_us = self.served_us + self.pending_us
        return served_us / self.latency_us if self.latency_us > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Use:
    """How the server's threads were used. Shares and fractions lie in 0..1."""

    in_flight_fraction: float
    """Of the window, the share in which a call to the server was under way."""
    busy_fraction: float
    """Of the window, the share in which it ran a call."""
    parallelism: float
    """Calls that it ran at once, on average while it was busy."""
    parallelism_max: int
    full_share: float
    """Of the time in which a thread was taken, the share in which none was free."""
    waited_full_share: float
    """Of the time that calls waited for a thread, the share in which none was free."""
    waited_serving_share: float
    """Of the same time, the share in which at least one thread was taken."""


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """What the threads did while they ran calls. The first three are shares that add up to 1."""

    on_share: float
    run_queue_share: float
    """Ready to run, but no CPU was free."""
    off_share: float
    """Neither: asleep, or waiting for I/O, a lock, the GIL."""
    off_uncrowded_ratio: float | None
    """Off-CPU time of the uncrowded calls over what is usual for their CPU time: about 1 if calls
    sleep, less if they wait for each other; None if there were too few such calls."""
    off_uncrowded_whole_ratio: float | None
    """The same over what is usual whatever their CPU time: calls that sleep, and compute longer in
    one call than in another, sleep no longer for it."""
    off_first_ratio: float | None
    """Off-CPU time of the calls that began while no other ran, over what is usual; None if there
    were too few such calls."""
    cpus_used: float
    """CPU time of the calls over the time in which the server was busy."""
    gil_share: float | None
    """Share of the served time on the CPU outside long operators; None without operators."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Numbers on a server; None where the trace does not say."""

    server: str
    rank: int
    threads: int | None
    """Its num_worker_threads."""
    threads_seen: int
    """How many of its threads were seen at work."""
    calls: int
    """Calls to it that run something there, which a fetch of a value does not."""
    served_calls: int
    """Those of them whose start and end on the server are known."""
    means: Means
    use: Use
    cpu: Cpu | None
    nested_share: float
    """Share of its served time in which it waited for calls of its own."""
    operator_parallelism: float | None
    """Remote operators that it ran at once, on average while any ran."""
    host_cpus_used: float | None
    """CPU time of the trace's processes on its machine, over the window."""
    cpu_count: int | None

    @property
    def pool(self) -> int:
        """Its number of threads; if the trace does not say, as many as were seen at work."""
        return self.threads or self.threads_seen


class _Server(NamedTuple):
    """The server in question, and its calls."""

    trace: Trace
    rank: int
    process: TraceRank | None
    sent: pd.DataFrame
    """The calls to it."""
    served: pd.DataFrame
    """Those of them whose start and end on the server are known."""
    times: pd.DataFrame
    """`call_times` of the served ones."""
    steps: Steps
    """How many of its threads are at work over time."""
    taken: Steps
    """How many are not free: they are at work, or pickle an answer."""
    threads_seen: int

    @property
    def pool(self) -> int:
        threads = self.process.num_worker_threads if self.process else None
        return threads or self.threads_seen


def gather(trace: Trace, rank: int) -> Evidence:
    """The evidence on the server of this rank, of which at least one call is known as served."""
    served = trace.calls[
        trace.calls["server_start_ns"].notna() & trace.calls["server_end_ns"].notna()
    ]
    server = _server(trace, rank, served)
    process = server.process
    return Evidence(
        server=server_name(trace, server.rank),
        rank=server.rank,
        threads=process.num_worker_threads if process else None,
        threads_seen=server.threads_seen,
        calls=int((server.sent["body"] != "fetch").sum()),
        served_calls=len(server.served),
        means=_means(server),
        use=_use(server),
        cpu=_cpu(server),
        nested_share=_nested_share(server),
        operator_parallelism=_operator_parallelism(server),
        host_cpus_used=_host_cpus_used(server),
        cpu_count=process.cpu_count if process else None,
    )


def _server(trace: Trace, rank: int, served: pd.DataFrame) -> _Server:
    own = served[served["server_rank"] == rank]
    sent = trace.calls[trace.calls["server_rank"] == rank]
    steps = threads_at_work(trace)[rank]
    return _Server(
        trace=trace,
        rank=rank,
        process=trace.process(rank),
        sent=sent,
        served=own,
        times=call_times(sent).loc[own.index],
        steps=steps,
        taken=threads_taken(trace)[rank],
        threads_seen=max(1, own["server_thread"].nunique(), len(steps.time_at_level()) - 1),
    )


def _means(server: _Server) -> Means:
    timed = server.times["wire_us"].notna()
    mean = server.times[timed].mean()
    return Means(
        calls=int(timed.sum()),
        latency_us=float(mean["latency_us"]),
        transport_us=float(mean["wire_us"] - mean["queue_us"]),
        queue_us=float(mean["queue_us"]),
        served_us=float(_wall_ns(server.served)[timed].mean()) / 1e3,
        pending_us=float(mean["pending_us"]),
    )


def _use(server: _Server) -> Use:
    opened, closed = window(server.trace)
    time_ns, taken_ns = server.steps.time_at_level(), server.taken.time_at_level()
    busy_ns = max(float(time_ns[1:].sum()), 1.0)
    began = server.sent["start_ns"].to_numpy()
    ended = server.sent["end_ns"].to_numpy(dtype=np.int64, na_value=closed)
    under_way = united(Spans(np.zeros_like(began), began, ended))
    return Use(
        in_flight_fraction=_total(under_way) / max(closed - opened, 1),
        busy_fraction=float(time_ns[1:].sum()) / max(closed - opened, 1),
        parallelism=float(time_ns @ np.arange(len(time_ns))) / busy_ns,
        parallelism_max=len(time_ns) - 1,
        full_share=float(taken_ns[server.pool :].sum()) / max(float(taken_ns[1:].sum()), 1.0),
        waited_full_share=_waited_share(server, server.pool),
        waited_serving_share=_waited_share(server, 1),
    )


def _waited_share(server: _Server, level: int) -> float:
    """Of the time that calls waited, the share in which at least `level` threads were taken."""
    steps = server.taken
    reached = Steps(steps.time, (steps.level >= level).astype(np.int64))
    until = server.served["server_start_ns"].to_numpy(dtype=np.int64)
    waited_ns = np.round(server.times["queue_us"].to_numpy() * 1e3).astype(np.int64)
    shares = reached.mean_level(until - waited_ns, until)
    return float(np.nansum(shares * waited_ns)) / max(float(waited_ns.sum()), 1.0)


def _cpu(server: _Server) -> Cpu | None:
    measured = server.times["off_cpu_us"].notna()
    calls, times = server.served[measured], server.times[measured]
    wall_us = float(_wall_ns(calls).sum()) / 1e3
    if wall_us <= 0 or wall_us < MEASURED_SHARE * float(_wall_ns(server.served).sum()) / 1e3:
        return None
    on_us, off_us = float(times["on_cpu_us"].sum()), float(times["off_cpu_us"].sum())
    long_us = _long_operators_us(server, calls)
    uncrowded, whole, first = _off_ratios(server, calls, times)
    return Cpu(
        on_share=on_us / wall_us,
        run_queue_share=float(times["run_queue_us"].sum()) / wall_us,
        off_share=off_us / wall_us,
        off_uncrowded_ratio=uncrowded,
        off_uncrowded_whole_ratio=whole,
        off_first_ratio=first,
        cpus_used=on_us * 1e3 / max(float(server.steps.time_at_level()[1:].sum()), 1.0),
        gil_share=None if long_us is None else max(on_us - long_us, 0.0) / wall_us,
    )


def _off_ratios(
    server: _Server, calls: pd.DataFrame, times: pd.DataFrame
) -> tuple[float | None, float | None, float | None]:
    """Off-CPU time over what is usual: of the uncrowded calls, and of those that began alone.

    Usual is the mean of the calls of that name; for uncrowded ones, per CPU time and as it is.
    """
    start, end = (calls[f"server_{edge}_ns"].to_numpy(np.int64) for edge in ("start", "end"))
    off, on = times["off_cpu_us"], times["on_cpu_us"]
    usual_off, usual_on = (
        part.groupby(calls["name"], observed=True).transform("mean") for part in (off, on)
    )
    company = server.steps.mean_level(start, end)
    uncrowded = pd.Series(company <= UNCROWDED * np.nanmean(company), index=off.index)
    first = pd.Series(server.steps.level_at(start) == 1, index=off.index)
    by_cpu = on * usual_off / usual_on.where(usual_on > 0)
    return (
        _ratio_of(off, by_cpu, uncrowded),
        _ratio_of(off, usual_off, uncrowded),
        _ratio_of(off, usual_off, first),
    )


def _ratio_of(values: pd.Series, usual: pd.Series, some: pd.Series) -> float | None:
    """The sum of some values over the sum of the usual ones; None if there are too few."""
    expected = float(usual[some].sum())
    if some.sum() < ENOUGH_TO_COMPARE or expected <= 0:
        return None
    return float(values[some].sum()) / expected


def _long_operators_us(server: _Server, calls: pd.DataFrame) -> float | None:
    """Time in long operators that the calls ran; None if operators were not recorded."""
    operators = server.trace.operators
    if not server.trace.operators_recorded:
        return None
    return _in_long_ns(operators[operators["call_id"].isin(calls["call_id"])]) / 1e3


def long_operators_ns(trace: Trace, rank: int, thread: int | None) -> float:
    """Time that a thread spent in long operators, which release the GIL; 0 if none is recorded."""
    operators = trace.operators
    return _in_long_ns(operators[(operators["rank"] == rank) & (operators["thread"] == thread)])


def _in_long_ns(operators: pd.DataFrame) -> float:
    lasted = operators["end_ns"] - operators["start_ns"] >= LONG_OPERATOR_NS
    long = operators[lasted]
    thread = group_codes((long["rank"].to_numpy(), long["thread"].to_numpy()))
    return _total(united(Spans(thread, long["start_ns"].to_numpy(), long["end_ns"].to_numpy())))


def _nested_share(server: _Server) -> float:
    """Of the served time, the share in which a call made by the server's code was under way."""
    served = server.served.set_index("call_id")
    inner = server.trace.calls[server.trace.calls["end_ns"].notna()]
    inner = inner[inner["parent_call"].isin(served.index)]
    outer = served.loc[inner["parent_call"]]
    start = np.maximum(inner["start_ns"].to_numpy(), outer["server_start_ns"].to_numpy(np.int64))
    end = np.minimum(inner["end_ns"].to_numpy(np.int64), outer["server_end_ns"].to_numpy(np.int64))
    spans = Spans(inner["parent_call"].to_numpy(np.int64), start, end)
    return _total(united(spans.take(end > start))) / max(float(_wall_ns(served).sum()), 1.0)


def _operator_parallelism(server: _Server) -> float | None:
    table = parallelism(server.trace, "operators")
    known = table.loc[table["rank"] == server.rank, "mean_while_busy"]
    return float(known.iloc[0]) if len(known) and known.notna().all() else None


def _host_cpus_used(server: _Server) -> float | None:
    """CPU seconds of the trace's processes on the server's machine, over the window's seconds."""
    opened, closed = window(server.trace)
    host = server.process.host if server.process else None
    used = [rank.cpu_s for rank in server.trace.ranks if rank.host == host]
    known = [cpu_s for cpu_s in used if cpu_s is not None]
    if not used or len(known) < len(used) or closed <= opened:
        return None
    return sum(known) / ((closed - opened) / 1e9)


def _wall_ns(served: pd.DataFrame) -> pd.Series:
    """The wall time of each served call on the server."""
    return (served["server_end_ns"] - served["server_start_ns"]).astype("int64")


def _total(spans: Spans) -> float:
    return float((spans.end - spans.start).sum())

"""The numbers that a diagnosis follows from: what a trace shows of a server."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tuner.trace.analyze import server_parallelism
from tuner.trace.analyze.call_times import as_waited_for, call_times, nested_waits
from tuner.trace.analyze.callbacks import are_callbacks
from tuner.trace.analyze.gil_use import HELD, Serving, serving
from tuner.trace.analyze.in_turn import takes_turns
from tuner.trace.analyze.server_parallelism import threads_at_work, threads_taken, window
from tuner.trace.analyze.time_spans import Spans, Steps, floats, group_codes, united
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

LONG_OPERATOR_NS = 30_000
"""An operator releases the GIL, but a shorter one ends before another thread has it: two threads
were no faster than one with multiplications of 2 us, and 1.9x faster with 40 us."""
MEASURED_SHARE = 0.8  # CPU times speak for a server if they cover this share of its served time
UNCROWDED = 2 / 3  # calls are uncrowded if at most this share of the usual number ran beside them
ENOUGH_TO_COMPARE = 10  # what fewer calls show may be chance


@dataclass(frozen=True, kw_only=True)
class Means:
    """Where the time of a call went, on average; the parts add up to the latency."""

    calls: int  # how many calls: those that were served, as far as their clients waited for them
    latency_us: float
    transport_us: float
    queue_us: float
    served_us: float
    pending_us: float

    @property
    def queue_share(self) -> float:
        """The share of a call's latency in which it waited for a thread."""
        return self.queue_us / self.latency_us if self.latency_us > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Use:
    """How the server's threads were used; shares of the time in which what is said was so."""

    in_flight_fraction: float  # of the window: a call to the server was under way
    busy_fraction: float  # of the window: it ran a call
    parallelism: float  # calls that it ran at once, on average while it was busy
    parallelism_max: int
    full_share: float  # of the time in which a thread was taken: none was free
    waited_full_share: float  # of the time that calls waited for a thread: none was free
    waited_serving_share: float  # of the same time: at least one thread was taken


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """What the threads did while they ran calls. The first three are shares that add up to 1.

    Ratios are of off-CPU time over what is usual; None for too few calls. That of the uncrowded
    ones is about 1 if calls sleep, less if they wait for each other. Calls that compute for longer
    need not sleep for longer: so it is also given whatever the CPU time.
    """

    on_share: float
    run_queue_share: float  # ready to run, but no CPU was free
    off_share: float  # neither: asleep, or waiting for I/O, a lock, the GIL
    off_uncrowded_ratio: float | None  # of uncrowded calls, over what is usual for their CPU time
    off_uncrowded_whole_ratio: float | None  # the same, over what is usual whatever their CPU time
    off_first_ratio: float | None  # of the calls that began while no other ran
    takes_turns: bool | None  # whether calls take turns while off the CPU, by when they end
    cpus_used: float  # CPU time of the calls over the time in which the server was busy
    gil_share: float | None
    """Of the served time: on the CPU outside long operators, where these are recorded; else with
    the GIL, where samples found that calls hold it for long."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Numbers on a server; None where the trace does not say."""

    server: str
    rank: int
    threads: int | None  # its num_worker_threads
    pool: int  # the same; if the trace does not say, as many threads as were seen at work
    calls: int  # calls to it that run something there, which a fetch of a value does not
    served_calls: int  # those of them whose start and end on the server are known
    means: Means
    use: Use
    cpu: Cpu | None
    gil: Serving  # who holds its GIL
    nested_share: float  # of its served time: it waited for calls of its own
    operator_parallelism: float | None  # of remote operators, on average while any ran
    host_cpus_used: float | None  # by the processes of the trace on its machine
    cpu_count: int | None
    host_known_cpus: float = 0.0  # of those on its machine: by threads that `known_cpu_s` counts
    work: str = "calls"
    """What it ran: `callbacks` where it ran nothing else."""


def gather(trace: Trace, rank: int) -> Evidence:
    """The evidence on the server of this rank, of which at least one call is known as served."""
    process = trace.process(rank)
    sent = trace.calls[trace.calls["server_rank"] == rank]
    served = sent[sent["server_start_ns"].notna() & sent["server_end_ns"].notna()]
    times = call_times(sent).loc[served.index]
    at_work = threads_at_work(trace)[rank]
    seen = max(1, served["server_thread"].nunique(), len(at_work.time_at_level()) - 1)
    pool = process.num_worker_threads or seen
    waited_for = call_times(as_waited_for(sent)).loc[served.index]
    timed = waited_for[waited_for["wire_us"].notna()]
    mean = {str(name): float(value) for name, value in timed.mean().items()}
    parts = {name: mean[name] for name in ("latency_us", "queue_us", "served_us", "pending_us")}
    operators = server_parallelism.parallelism(trace, "operators").set_index("rank")
    in_operators = operators["mean_while_busy"].get(rank)
    gil = serving(trace, rank)
    return Evidence(
        server=process.name,
        rank=rank,
        threads=process.num_worker_threads,
        pool=pool,
        calls=int((sent["body"] != "fetch").sum()),
        served_calls=len(served),
        means=Means(calls=len(timed), transport_us=mean["wire_us"] - mean["queue_us"], **parts),
        use=_use(trace, rank, sent, times, at_work, pool),
        cpu=_cpu(trace, served, times, at_work, gil),
        gil=gil,
        nested_share=_nested_share(trace, served),
        operator_parallelism=None if pd.isna(in_operators) else float(in_operators),
        host_cpus_used=_host_cpus_used(trace, process.host),
        cpu_count=process.cpu_count,
        host_known_cpus=_host_known_cpus(trace, process.host),
        work="callbacks" if are_callbacks(served).all() else "calls",
    )


def _use(
    trace: Trace, rank: int, sent: pd.DataFrame, times: pd.DataFrame, at_work: Steps, pool: int
) -> Use:
    whole_ns = max(server_parallelism.seen_length_ns(trace), 1)
    taken = threads_taken(trace)[rank]
    time_ns, taken_ns = at_work.time_at_level(), taken.time_at_level()
    busy_ns = float(time_ns[1:].sum())
    under_way = united(Spans.of(sent.fillna({"end_ns": window(trace)[1]})))
    until = sent.loc[times.index, "server_start_ns"].to_numpy(dtype=np.int64)
    waited_ns = np.round(times["queue_us"].to_numpy() * 1e3).astype(np.int64)
    # Of the time that calls waited, the share in which so many threads were taken.
    waited_full, waited_serving = (
        float(np.nansum(taken.share_from(level, until - waited_ns, until) * waited_ns))
        / max(float(waited_ns.sum()), 1.0)
        for level in (pool, 1)
    )
    return Use(
        in_flight_fraction=under_way.total_ns() / whole_ns,
        busy_fraction=busy_ns / whole_ns,
        parallelism=float(time_ns @ np.arange(len(time_ns))) / max(busy_ns, 1.0),
        parallelism_max=len(time_ns) - 1,
        full_share=float(taken_ns[pool:].sum()) / max(float(taken_ns[1:].sum()), 1.0),
        waited_full_share=waited_full,
        waited_serving_share=waited_serving,
    )


def _cpu(
    trace: Trace, served: pd.DataFrame, times: pd.DataFrame, at_work: Steps, gil: Serving
) -> Cpu | None:
    measured = times["off_cpu_us"].notna()
    sums = times[measured].sum()
    wall_us, on_us = float(sums["served_us"]), float(sums["on_cpu_us"])
    if wall_us <= 0 or wall_us < MEASURED_SHARE * times["served_us"].sum():
        return None
    calls = served[measured]
    uncrowded, whole, first = _off_ratios(at_work, calls, times[measured])
    busy_us = float(at_work.time_at_level()[1:].sum()) / 1e3
    start, end = (calls[f"server_{edge}_ns"].to_numpy(np.int64) for edge in ("start", "end"))
    gil_share = _gil_share(trace.with_operators(), calls, times)
    if gil_share is None and gil.by_calls.is_known and gil.by_calls.share >= HELD:
        gil_share = min(gil.by_calls.share * busy_us, on_us) / wall_us
    return Cpu(
        on_share=on_us / wall_us,
        run_queue_share=float(sums["run_queue_us"]) / wall_us,
        off_share=float(sums["off_cpu_us"]) / wall_us,
        off_uncrowded_ratio=uncrowded,
        off_uncrowded_whole_ratio=whole,
        off_first_ratio=first,
        takes_turns=takes_turns(at_work, start, end, floats(times[measured], "off_cpu_us") * 1e3),
        cpus_used=on_us / max(busy_us, 1e-3),
        gil_share=gil_share,
    )


def _gil_share(trace: Trace, served: pd.DataFrame, times: pd.DataFrame) -> float | None:
    """See `Cpu`; of those of the calls whose operators are known."""
    calls = served[served["call_id"].isin(trace.calls["call_id"])]
    sums = times.loc[calls.index].sum()
    if not trace.operators_recorded or sums["served_us"] <= 0:
        return None
    of_calls = trace.operators["call_id"].isin(calls["call_id"])
    long_us = _in_long_ns(trace.operators[of_calls]) / 1e3
    return max(float(sums["on_cpu_us"]) - long_us, 0.0) / float(sums["served_us"])


def _off_ratios(at_work: Steps, calls: pd.DataFrame, times: pd.DataFrame) -> list[float | None]:
    """The ratios of `Cpu`, in its order; usual is the mean of the calls of the same name."""
    start, end = (calls[f"server_{edge}_ns"].to_numpy(np.int64) for edge in ("start", "end"))
    off, on = times["off_cpu_us"], times["on_cpu_us"]
    usual_off, usual_on = (
        part.groupby(calls["name"], observed=True).transform("mean") for part in (off, on)
    )
    company = at_work.mean_level(start, end)
    uncrowded, first = company <= UNCROWDED * np.nanmean(company), at_work.level_at(start) == 1
    by_cpu = on * usual_off / usual_on.where(usual_on > 0)
    ratios: list[float | None] = []
    for usual, some in ((by_cpu, uncrowded), (usual_off, uncrowded), (usual_off, first)):
        expected = float(usual[some].sum())
        is_enough = some.sum() >= ENOUGH_TO_COMPARE and expected > 0
        ratios.append(float(off[some].sum()) / expected if is_enough else None)
    return ratios


def long_operators_ns(trace: Trace, rank: int, thread: int | None = None) -> float:
    """The time in long operators, which release the GIL, of a thread, or else of all in which no
    served call ran them; 0 if none is recorded."""
    operators = trace.operators
    which = operators["call_id"].isna() if thread is None else operators["thread"] == thread
    return _in_long_ns(operators[(operators["rank"] == rank) & which])


def in_long_operators_ns(trace: Trace) -> float:
    """The time in long operators of all threads together; 0 if none is recorded."""
    return _in_long_ns(trace.operators)


def _in_long_ns(operators: pd.DataFrame) -> float:
    long = operators[operators["end_ns"] - operators["start_ns"] >= LONG_OPERATOR_NS]
    thread = group_codes((long["rank"].to_numpy(), long["thread"].to_numpy()))
    return united(Spans.of(long)._replace(group=thread)).total_ns()


def _nested_share(trace: Trace, served: pd.DataFrame) -> float:
    """Of the served time, the share in which the server's code waited for calls of its own."""
    waits = nested_waits(trace.calls)
    here = waits.take(np.isin(waits.group, served["call_id"]))
    served_ns = float((served["server_end_ns"] - served["server_start_ns"]).sum())
    return here.total_ns() / max(served_ns, 1.0)


def known_cpu_s(rank: TraceRank) -> float:
    """CPU seconds of a process's threads that serve no calls, and are no threads of the agent's: as
    far as the trace says."""
    return sum(cpu_s or 0.0 for cpu_s in (rank.main_cpu_s, rank.others_cpu_s, rank.pool_cpu_s))


def _host_known_cpus(trace: Trace, host: str) -> float:
    known_s = sum(known_cpu_s(rank) for rank in trace.ranks if rank.host == host)
    return known_s / max(server_parallelism.window_length_ns(trace) / 1e9, 1e-9)


def _host_cpus_used(trace: Trace, host: str) -> float | None:
    """CPU seconds of the trace's processes on a machine, over the window's seconds."""
    whole_s = server_parallelism.window_length_ns(trace) / 1e9
    used_s = [rank.cpu_s for rank in trace.ranks if rank.host == host]
    known_s = [cpu_s for cpu_s in used_s if cpu_s is not None]
    is_known = 0 < len(known_s) == len(used_s) and whole_s > 0
    return sum(known_s) / whole_s if is_known else None

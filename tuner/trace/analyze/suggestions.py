"""The knob that may help with a limit, where the trace shows what that knob changes.

Two things are looked for. Calls wait for the GIL while the server's main thread computes: such a
call takes at least one switch interval to begin, whatever else the server does. Or ready threads
wait for a CPU, and the ranks themselves hold all of them.
"""

from dataclasses import dataclass

import numpy as np

from tuner.process_knobs import CPU_BINDING, EQUAL, SWITCH_INTERVAL
from tuner.text import whole_percent
from tuner.trace.analyze.critical_path import CriticalPath
from tuner.trace.analyze.diagnosis_rules import (
    FULL_HOST,
    MOST,
    ONE_CPU,
    QUEUED,
    RUN_QUEUE_ON_FULL_HOST,
    WAITED_FULL,
    host_is_full,
    logical_cpus,
    main_thread_used,
    short_time,
)
from tuner.trace.analyze.path_limits import Limit
from tuner.trace.analyze.server_evidence import Evidence, long_operators_ns
from tuner.trace.analyze.server_parallelism import window
from tuner.trace.analyze.time_spans import FloatArray
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

INTERVAL_NS = 4_000_000
"""A thread that waits for the GIL asks for it after 5 ms, Python's switch interval."""
WAITED_NS = 1_000_000
"""A call that takes less to begin has waited for nothing."""
MOST_THAT_WAITED = 0.75
"""Of the calls that waited, so many took an interval if it was for the GIL: 0.89 to 1 did in ten
runs of ranks that compute in Python, and at most 0.49 in five of others, which waited for a CPU."""
MANY = 0.2
"""Where less of all calls took an interval, few are hurt."""
NS_PER_BYTE = 10
"""What a large request may take on its way, at 1 Gbit/s, is no wait for the GIL."""
GAIN = 0.05
"""Calls that take less of their time to begin and to return gain too little to search for."""


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A knob that may help, and why."""

    knob: str
    """As in `--space`."""
    values: str
    """To be searched, as in `--space`; the default is one of them."""
    why: str
    """What the trace shows, as a sentence."""

    @property
    def space(self) -> str:
        """What `--space` takes: `switch_interval=5ms,1ms,0.2ms`."""
        return f"{self.knob}={self.values}"

    @property
    def sentence(self) -> str:
        """Why, and the flag of a search that tries it."""
        return f"{self.why} The knob {self.knob} may help; --space {self.space} tries it."


def suggest(
    trace: Trace, path: CriticalPath, limit: Limit, found: Evidence, *, is_cpus_full: bool
) -> Suggestion | None:
    """The knob that may help with a limit on a server.

    Args:
        trace: The trace.
        path: Its critical path.
        limit: One of its limits.
        found: The evidence on the limit's server.
        is_cpus_full: Whether the limit is put down to full logical CPUs.

    Returns:
        None where the trace shows of no knob that it may help.
    """
    if limit.kind in ("wire", "dispatch", "off_cpu"):
        waits = _waits_for_gil(trace, path, found)
        if waits is not None:
            return waits
    if is_cpus_full or (limit.kind in ("wire", "dispatch") and _waits_for_cpu(trace, path, found)):
        return _held_by_ranks(trace, found)
    return None


def _waits_for_gil(trace: Trace, path: CriticalPath, found: Evidence) -> Suggestion | None:
    """That calls to a server wait for the GIL while its main thread computes."""
    means = found.means
    on_the_way = means.latency_us - means.served_us - means.pending_us
    for_a_thread = found.use.waited_full_share >= WAITED_FULL and means.queue_share >= QUEUED
    if for_a_thread or not on_the_way >= GAIN * means.latency_us:
        return None
    process = trace.process(found.rank)
    took_ns = _took_to_begin_ns(trace, found.rank)
    waited, slow = (took_ns >= WAITED_NS).mean(), float((took_ns >= INTERVAL_NS).mean())
    if slow < max(MANY, MOST_THAT_WAITED * waited):
        return None
    if process is None or not _computes(trace, path, process):
        return None
    seconds = _window_s(trace)
    assert process.main_cpu_s is not None
    main_run_queue = process.main_run_queue_s and process.main_run_queue_s / seconds
    used = main_thread_used(process.main_cpu_s / seconds, main_run_queue)
    why = (
        f"Calls wait for the GIL of {found.server}: {whole_percent(slow)} of them took "
        f"{short_time(INTERVAL_NS / 1e3)} or more to begin though a thread was free, and its main "
        f"thread {used}."
    )
    return Suggestion(knob=SWITCH_INTERVAL, values="5ms,1ms,0.2ms", why=why)


def _took_to_begin_ns(trace: Trace, rank: int) -> FloatArray:
    """How long the calls to a server took to begin, without what their bytes may take."""
    calls = trace.calls
    seen = calls[(calls["server_rank"] == rank) & calls["server_start_ns"].notna()]
    issued = seen["issued_ns"].fillna(seen["start_ns"])
    took = (seen["server_start_ns"] - issued).to_numpy(np.float64)
    sent = NS_PER_BYTE * seen["request_bytes"].to_numpy(np.float64, na_value=0.0)
    begun: FloatArray = took - sent - trace.clock_error_ns
    return begun


def _computes(trace: Trace, path: CriticalPath, process: TraceRank) -> bool:
    """Whether the main thread of a process computes in Python while the driver makes its steps.

    Its CPU time is known of the whole trace: it is taken to compute outside of the steps first.
    A thread that waits for a CPU may hold the GIL, too.
    """
    if process.main_cpu_s is None:
        return False
    steps_s = float(path.total_ns.sum() + path.disturbed_ns.sum()) / 1e9
    outside_s = _window_s(trace) - steps_s
    in_operators_s = long_operators_ns(trace, process.rank, process.pid) / 1e9
    computed_s = process.main_cpu_s - in_operators_s - outside_s
    return computed_s > 0 and computed_s >= MOST * (steps_s - (process.main_run_queue_s or 0.0))


def _waits_for_cpu(trace: Trace, path: CriticalPath, found: Evidence) -> bool:
    """Whether the driver's thread, or the server's, is ready and waits for a CPU noticeably."""
    driver, seconds = path.driver, _window_s(trace)
    process = trace.process(driver.rank)
    waited = [found.cpu.run_queue_share] if found.cpu else []
    is_main = process is not None and driver.is_alone and driver.thread == process.pid
    if is_main and process is not None and process.main_run_queue_s is not None and seconds > 0:
        waited.append(process.main_run_queue_s / seconds)
    return max(waited, default=0.0) >= RUN_QUEUE_ON_FULL_HOST


def _held_by_ranks(trace: Trace, found: Evidence) -> Suggestion | None:
    """That ranks keep the CPUs of the server's host busy, and not by serving its calls."""
    cpu, cpus, process = found.cpu, found.cpu_count, trace.process(found.rank)
    if cpu is None or cpus is None or process is None or not host_is_full(found):
        return None
    if cpu.cpus_used >= FULL_HOST * cpus:
        return None
    ranks = [rank for rank in trace.ranks if rank.host == process.host]
    assert found.host_cpus_used is not None
    held = f"{logical_cpus(found.host_cpus_used, cpus)} are in use by the ranks"
    # What it would use at once, if it got it.
    wanted = found.use.parallelism * (cpu.on_share + cpu.run_queue_share)
    if len(ranks) > 1 and wanted <= ONE_CPU[1] * (cpus // len(ranks)):
        why = f"{held}, and {found.server} does not get its share of them."
        return Suggestion(knob=CPU_BINDING, values=f"none,{EQUAL}", why=why)
    polled = sum(_polled_s(trace, rank) for rank in ranks) / _window_s(trace)
    if polled < 1:
        return None
    why = (
        f"{held}, {logical_cpus(polled)} by threads that neither serve calls nor are a main "
        "thread: those of the shm transport poll."
    )
    return Suggestion(knob="transports", values="default,uv", why=why)


def _polled_s(trace: Trace, rank: TraceRank) -> float:
    """CPU seconds of a rank in which it neither served calls nor ran its main thread."""
    served_ns = trace.calls.loc[trace.calls["server_rank"] == rank.rank, "cpu_ns"].sum()
    return max((rank.cpu_s or 0.0) - (rank.main_cpu_s or 0.0) - float(served_ns) / 1e9, 0.0)


def _window_s(trace: Trace) -> float:
    opened, closed = window(trace)
    return (closed - opened) / 1e9

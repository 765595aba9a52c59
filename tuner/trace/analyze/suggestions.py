"""The knob that may help with a limit, where the trace shows what that knob changes.

Calls may wait for the GIL, at least for one switch interval, while the server's main thread
computes. Or ready threads wait for a CPU, and the ranks themselves hold all of them, maybe with
their intra-op threads.
"""

from dataclasses import dataclass

from tuner.process_knobs import CPU_BINDING, EQUAL, SWITCH_INTERVAL
from tuner.text import whole_percent
from tuner.trace.analyze import diagnosis_rules as rules
from tuner.trace.analyze.critical_path import CriticalPath
from tuner.trace.analyze.pools import Pools
from tuner.trace.analyze.server_evidence import Evidence, known_cpu_s, long_operators_ns
from tuner.trace.analyze.server_parallelism import window_length_ns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import Trace

INTERVAL_NS = 4_000_000
"""A thread that waits for the GIL asks for it after 5 ms, Python's switch interval."""
WAITED_NS = 1_000_000  # a call that takes less to begin has waited for nothing
MOST_THAT_WAITED = 0.75
"""Of the calls that waited, so many took an interval if it was for the GIL: 0.89 to 1 did in ten
runs of ranks that compute in Python, and at most 0.49 in five of others, which waited for a CPU."""
MANY = 0.2  # where less of all calls took an interval, few are hurt
NS_PER_BYTE = 10  # what a large request may take on its way, at 1 Gbit/s, is no wait for the GIL
THREADS = "num_worker_threads"
INTRA_OP_THREADS = "intra_op_threads"
GAIN = 0.05
"""Calls that take less of their time to begin and to return gain too little to search for."""


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A knob that may help, and why."""

    knob: str
    values: str  # to be searched, as in `--space`; the default is one of them
    why: str  # what the trace shows, as a sentence; empty where the diagnosis has said it

    @property
    def space(self) -> str:
        """What `--space` takes: `switch_interval=5ms,1ms,0.2ms`."""
        return f"{self.knob}={self.values}"

    @property
    def sentence(self) -> str:
        """Why, and the flag of a search that tries it."""
        helps = f"The knob {self.knob} may help: --space {self.space} tries it."
        return f"{self.why} {helps}".lstrip()


def suggest(
    trace: Trace, path: CriticalPath, kind: str, found: Evidence, *, is_cpus_full: bool
) -> Suggestion | None:
    """The knob that may help with this kind of limit on a server; None where there is none.

    `is_cpus_full` says that the limit is put down to full logical CPUs.
    """
    for_gil = kind in ("wire", "dispatch", "off_cpu")
    if for_gil and (switch_interval := _waits_for_gil(trace, path, found)):
        return switch_interval
    if is_cpus_full or (kind in ("wire", "dispatch") and _waits_for_cpu(trace, path, found)):
        return _held_by_ranks(trace, found)
    return None


def more_threads(found: Evidence) -> Suggestion | None:
    """More worker threads than a server has; None where that is not known."""
    if found.threads is None:
        return None
    values = ",".join(str(found.threads * factor) for factor in (1, 2, 4, 8))
    return Suggestion(knob=THREADS, values=values, why="")


def fewer_intra_op_threads(pools: Pools) -> Suggestion:
    """That operators run on fewer threads."""
    return Suggestion(knob=INTRA_OP_THREADS, values=pools.values, why=pools.sentence)


def shorter_switch_interval(why: str = "") -> Suggestion:
    """That threads let go of the GIL sooner."""
    return Suggestion(knob=SWITCH_INTERVAL, values="5ms,1ms,0.2ms", why=why)


def _waits_for_gil(trace: Trace, path: CriticalPath, found: Evidence) -> Suggestion | None:
    """That calls to a server wait for the GIL while its main thread computes."""
    means = found.means
    on_the_way = means.latency_us - means.served_us - means.pending_us
    for_a_thread = found.use.waited_full_share >= rules.MOST and means.queue_share >= rules.QUEUED
    if for_a_thread or not on_the_way >= GAIN * means.latency_us:
        return None
    process = trace.process(found.rank)
    calls = trace.calls
    seen = calls[(calls["server_rank"] == found.rank) & calls["server_start_ns"].notna()]
    seen = seen.fillna({"issued_ns": seen["start_ns"], "request_bytes": 0})
    # Without what their bytes may take.
    took_ns = floats(seen, "server_start_ns") - floats(seen, "issued_ns") - trace.clock_error_ns
    took_ns -= NS_PER_BYTE * floats(seen, "request_bytes")
    waited, slow = (took_ns >= WAITED_NS).mean(), float((took_ns >= INTERVAL_NS).mean())
    if slow < max(MANY, MOST_THAT_WAITED * waited):
        return None
    if not (who_computes := _who_computes(trace, path, process)):
        return None
    why = (
        f"Calls wait for the GIL of {found.server}: {whole_percent(slow)} of them took "
        f"{rules.short_time(INTERVAL_NS / 1e3)} or more to begin though a thread was free. Its "
        f"{who_computes}."
    )
    return shorter_switch_interval(why)


def _who_computes(trace: Trace, path: CriticalPath, process: TraceRank) -> str:
    """What is known of the threads of a process that serve no calls, where these compute in Python
    while the driver makes its steps: the main thread, or all of them. Empty where they do not.

    CPU time is known of the whole trace: they are taken to compute outside of the steps first.
    A thread that waits for a CPU may hold the GIL, too. Where operators are left out, it is not
    known how much of that time is Python's.
    """
    if process.main_cpu_s is None or trace.operators_until_ns is not None:
        return ""
    window_s = _window_s(trace)
    outside_s = window_s - path.length_s

    def compute(cpu_s: float, in_operators_ns: float, ready_s: float) -> bool:
        # One at a time holds the GIL.
        computed_s = min(cpu_s - in_operators_ns / 1e9, window_s) - outside_s
        return computed_s > 0 and computed_s >= rules.MOST * (path.length_s - ready_s)

    ready_s = process.main_run_queue_s or 0.0
    of_main = long_operators_ns(trace, process.rank, process.pid)
    if compute(process.main_cpu_s, of_main, ready_s):
        return rules.main_thread_used(process, window_s)
    # They wait for CPUs at the same time.
    ready_s = max(ready_s, min(process.others_run_queue_s or 0.0, path.length_s / 2))
    cpu_s = process.main_cpu_s + (process.others_cpu_s or 0.0)
    if compute(cpu_s, long_operators_ns(trace, process.rank), ready_s):
        return rules.own_threads_used(cpu_s, window_s)
    return ""


def _waits_for_cpu(trace: Trace, path: CriticalPath, found: Evidence) -> bool:
    """Whether the driver's thread, or the server's, is ready and waits for a CPU noticeably."""
    process, seconds = trace.process(path.driver.rank), _window_s(trace)
    shares = [found.cpu.run_queue_share if found.cpu else 0.0]
    if path.driver.is_main_of(process) and seconds > 0:
        shares.append((process.main_run_queue_s or 0.0) / seconds)
    return max(shares) >= rules.RUN_QUEUE_ON_FULL_HOST


def _held_by_ranks(trace: Trace, found: Evidence) -> Suggestion | None:
    """That ranks keep the CPUs of the server's host busy, and not by serving its calls."""
    cpu, cpus, host = found.cpu, found.cpu_count, trace.process(found.rank).host
    if cpu is None or cpus is None or not rules.host_is_full(found):
        return None
    if cpu.cpus_used >= rules.FULL_HOST * cpus:
        return None
    ranks = [rank for rank in trace.ranks if rank.host == host]
    held = f"The ranks use {rules.host_cpus(found)}"
    # What it would use at once, if it got it.
    wanted = found.use.parallelism * (cpu.on_share + cpu.run_queue_share)
    if len(ranks) > 1 and wanted <= rules.ONE_CPU[1] * (cpus // len(ranks)):
        why = f"{held}: {found.server} does not get its share of them."
        return Suggestion(knob=CPU_BINDING, values=f"none,{EQUAL}", why=why)
    served_s = trace.calls.groupby("server_rank")["cpu_ns"].sum().astype(float) / 1e9
    polled = sum(
        max((rank.cpu_s or 0.0) - known_cpu_s(rank) - served_s.get(rank.rank, 0.0), 0.0)
        for rank in ranks
    ) / _window_s(trace)  # fmt: skip
    if polled < 1:
        return None
    why = (
        f"{held}. Threads that neither serve calls nor are the program's own use "
        f"{rules.logical_cpus(polled)}: those of the shm transport poll."
    )
    return Suggestion(knob="transports", values="default,uv", why=why)


def _window_s(trace: Trace) -> float:
    return window_length_ns(trace) / 1e9

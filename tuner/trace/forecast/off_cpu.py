"""What the served functions of a process share: its GIL, a lock of the program, or nothing.

The trace does not say it, but how long calls were off the CPU beside others does. Where even that
says nothing, both the best case and the worst are replayed.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from tuner.trace.analyze import diagnosis_rules as rules
from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.gil_use import HELD
from tuner.trace.analyze.in_turn import gaps_ns
from tuner.trace.analyze.server_evidence import Evidence, gather
from tuner.trace.analyze.server_parallelism import threads_at_work
from tuner.trace.analyze.time_spans import floats
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import FloatArray, Trace

ALONE = 1.2  # with a lower parallelism, calls had no company that shows anything
LITTLE_OFF = 0.1  # calls that are off the CPU for less of their time wait for nothing
"""Calls whose times off the CPU vary less than this, relative to the mean, do not wait in turn."""
LONGER = 1.3
"""Calls that began alone and are off the CPU for so much longer than usual wait for later ones."""
IN_TURN = 0.7  # a correlation with the number of calls before that shows that calls take turns
FEW = 10  # calls, which show no such correlation
NEARLY_ALL = 0.8  # of the CPU time of calls: what is not in the samples may be their error


class Shared(NamedTuple):
    """How the calls of a server hinder each other."""

    gil: float = 0.0
    """The share of their CPU time in which they hold the GIL."""
    lock_ns: float | None = None
    """How long each holds a lock, off the CPU; None: there is none."""
    off_ns: float | None = None
    """How long each is off the CPU beside that; None: as long as in the trace."""
    operators: float = 1.0
    """The share of their time that calls of operators alone are on the CPU, at most."""
    waits_for_gil: bool = False
    """Whether they wait for the GIL to begin, to go on and to answer, since others hold it."""


class Known(NamedTuple):
    """What the trace tells of a server: the best case and the worst, which may be the same."""

    best: Shared
    worst: Shared
    problem: str = ""  # why nothing can be said of it


FREE = Known(Shared(), Shared())


def shared_by(trace: Trace, rank: int, explained: Collection[int] = ()) -> Known:
    """What the calls that a process served share; it is known for which others these wait."""
    is_operator = (trace.calls["server_rank"] == rank) & (trace.calls["body"] != "python")
    python = replace(trace, calls=trace.calls[~is_operator])
    is_called = rank in python.calls["server_rank"].unique()
    own = _by_python(python, rank, explained) if is_called else FREE
    share = _on_cpu(trace.calls[is_operator], python, trace.process(rank))
    return own._replace(
        best=own.best._replace(operators=share), worst=own.worst._replace(operators=share)
    )


def _on_cpu(calls: pd.DataFrame, python: Trace, process: TraceRank) -> float:
    """The share of their time that these calls of a process can have been on the CPU."""
    took_ns = float(np.nansum(floats(calls, "server_end_ns") - floats(calls, "server_start_ns")))
    if process.cpu_s is None or process.main_cpu_s is None or not took_ns:
        return 1.0
    known_ns = python.calls.loc[python.calls["server_rank"] == process.rank, "cpu_ns"].sum()
    left_ns = (process.cpu_s - process.main_cpu_s) * 1e9 - float(known_ns)
    return min(max(left_ns, 0.0) / took_ns, 1.0)


def _by_python(trace: Trace, rank: int, explained: Collection[int]) -> Known:
    """The same of calls that run Python."""
    found = gather(trace, rank)
    cpu, name = found.cpu, found.server
    if cpu is None:
        return Known(Shared(), Shared(), f"the CPU time of the calls to {name} is not known")
    low, high = _gil(found)
    if found.gil.is_limit and found.gil.by == "calls":
        known = Shared(low, waits_for_gil=True), Shared(high, waits_for_gil=True)
        return Known(*known)
    if explained:
        trace = replace(trace, calls=trace.calls[~trace.calls["call_id"].isin(explained)])
        others = trace.calls[trace.calls["server_rank"] == rank].dropna(subset="server_end_ns")
        if others.empty or not (cpu := (found := gather(trace, rank)).cpu):
            return Known(Shared(low), Shared(high))
    own_off = max(cpu.off_share - found.nested_share, 0.0)
    if own_off < LITTLE_OFF:
        return Known(Shared(low), Shared(high))
    off = _OffCpu.of(trace, rank)
    if cpu.off_first_ratio is not None and cpu.off_first_ratio >= LONGER:
        return Known(Shared(), Shared(), f"calls to {name} seem to wait for later ones")
    free = Known(Shared(low), Shared(high))
    lock = off.lock()
    has_company = found.use.parallelism >= ALONE and found.nested_share < own_off
    is_in_turn = _is_in_turn(found, off) if has_company else None
    computes = cpu.cpus_used >= rules.GIL_AT_LEAST
    least_ns = float(np.quantile(off.ns, 0.05))
    if is_in_turn is None:
        # What computes may have waited only because others did.
        in_turn = Shared(high, off_ns=least_ns) if computes else lock._replace(gil=high)
        return Known(free.best, in_turn)
    if not is_in_turn:
        return free
    if computes:
        gil = Shared(1.0, off_ns=least_ns)
        return Known(gil, gil)
    return Known(lock._replace(gil=low), lock._replace(gil=high))


def _gil(found: Evidence) -> tuple[float, float]:
    """The least and the highest share of the CPU time in which calls hold the GIL."""
    cpu = found.cpu
    assert cpu is not None
    held = found.gil.by_calls
    if held.is_known and held.share >= HELD and cpu.cpus_used > 0:
        # What is neither in the samples nor long may be in operators too short to let go of it.
        least = (held.share - held.error) / cpu.cpus_used
        return (1.0, 1.0) if least >= NEARLY_ALL else (min(max(least, 0.0), 1.0), 1.0)
    if cpu.gil_share is not None and cpu.on_share > 0:
        share = min(cpu.gil_share / cpu.on_share, 1.0)
        return share, share
    if cpu.cpus_used > rules.ONE_CPU[1]:
        return 0.0, 1.0 / cpu.cpus_used
    return 0.0, 1.0


class _OffCpu(NamedTuple):
    """The time off the CPU of the calls of a server, in nanoseconds."""

    ns: FloatArray
    level: FloatArray  # how many calls ran when each began, itself included
    gaps: FloatArray  # from the end of a call to that of the next, while others are served

    @classmethod
    def of(cls, trace: Trace, rank: int) -> "_OffCpu":
        calls = trace.calls
        served = calls[(calls["server_rank"] == rank) & calls["server_end_ns"].notna()]
        served = served[served["server_start_ns"].notna()].sort_values("server_end_ns")
        start, end = floats(served, "server_start_ns"), floats(served, "server_end_ns")
        ns = np.nan_to_num(call_times(served)["off_cpu_us"].to_numpy()) * 1e3
        at_work = threads_at_work(trace)[rank]
        level = at_work.level_at(start.astype(np.int64))
        gaps = gaps_ns(at_work, end.astype(np.int64))
        return cls(ns, level.astype(np.float64), gaps)

    def lock(self) -> Shared:
        """What calls do that take turns with a lock."""
        alone = self.ns[self.level <= 1]
        # The mean: calls that take turns with two locks end in pairs.
        held_ns = float(np.mean(self.gaps) if len(self.gaps) else np.median(self.ns))
        usual = float(np.median(alone) if len(alone) else np.quantile(self.ns, 0.05))
        return Shared(lock_ns=held_ns, off_ns=max(usual - held_ns, 0.0))

    @property
    def by_level(self) -> float:
        """How the time follows from the calls before: the correlation of the ranks, or 0."""
        if len(self.ns) < FEW or len(np.unique(self.level)) < 2:
            return 0.0
        return float(pd.Series(self.level).rank().corr(pd.Series(self.ns).rank()))


def _is_in_turn(found: Evidence, off: _OffCpu) -> bool | None:
    """Whether calls are off the CPU because others run; None where that is not known."""
    cpu = found.cpu
    assert cpu is not None
    first, whole = cpu.off_first_ratio, cpu.off_uncrowded_whole_ratio
    if cpu.takes_turns is not None and cpu.cpus_used < rules.GIL_AT_LEAST:
        return cpu.takes_turns
    if first is not None and first <= rules.UNHINDERED:
        return True
    if whole is not None and whole <= rules.LESS:
        return True
    uses_one_cpu = rules.ONE_CPU[0] <= cpu.cpus_used <= rules.ONE_CPU[1]
    if uses_one_cpu and cpu.off_share >= rules.OFF_CPU:
        return True
    if off.by_level >= IN_TURN:
        return True
    if cpu.cpus_used < rules.GIL_AT_LEAST and (first is not None or whole is not None):
        return False
    return None

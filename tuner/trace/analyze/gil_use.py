"""How much of the time the GIL of a process is held, and by whom, from the samples of a trace.

A sample stands for the time for which its thread had slept: the GIL was held for all of it, or for
none. While the thread waited, the GIL was held for sure.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from tuner.trace.analyze.server_parallelism import threads_taken, window, window_length_ns
from tuner.trace.analyze.time_spans import Steps, floats, open_over_time
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import FloatArray, IntArray, Trace

ENOUGH = 10  # fewer samples say little: a thread that waits for a held GIL takes few
ONE_READY = (
    1.5  # with fewer threads on a CPU, or ready for one, they do not run native code at once
)
HELD = 0.5  # a GIL that is held for this share of the time is what others wait for
FULL = 0.85  # if calls hold it for more of the time, more threads gain next to nothing
SWITCH_NS = 5_000_000
"""Python's switch interval, where a process has no other."""

Holder = Literal["calls", "main", "others"]


def switch_ns(process: TraceRank) -> float:
    """The switch interval of a process: a thread that waits for its GIL wakes that often, and asks
    for it."""
    return SWITCH_NS if process.switch_interval_s is None else process.switch_interval_s * 1e9


def woken_ns(trace: Trace) -> FloatArray:
    """How long the thread of each call can have waited for the GIL: it is woken at every switch
    interval then, and one that sleeps is not."""
    of_rank = {rank.rank: switch_ns(rank) for rank in trace.ranks}
    each_ns = [of_rank.get(rank, SWITCH_NS) for rank in trace.calls["server_rank"].tolist()]
    return np.nan_to_num(floats(trace.calls, "slices")) * np.array(each_ns, np.float64)


class Held(NamedTuple):
    """An estimate."""

    share: float  # of the time; NaN without samples
    samples: int

    @property
    def is_known(self) -> bool:
        """Whether it rests on enough samples."""
        return self.samples >= ENOUGH

    @property
    def error(self) -> float:
        """Two standard errors."""
        return 2 * float(np.sqrt(0.25 / max(self.samples, 1)))


class GilUse(NamedTuple):
    """The samples of a process: when it wanted the GIL, when it had it, what it had slept for."""

    asked: IntArray
    until: IntArray
    slept: IntArray

    @classmethod
    def of(cls, trace: Trace, rank: int) -> "GilUse":
        """Those of this rank; none where it has none."""
        found = np.array(trace.process(rank).gil, np.int64).reshape(-1, 3)
        return cls(found[:, 0], found[:, 0] + found[:, 1], found[:, 2])

    @property
    def waited_ns(self) -> FloatArray:
        """How long each one that waited did so."""
        waited = self.until - self.asked
        return waited[waited > 0].astype(np.float64)

    def held(self, during: Steps) -> Held:
        """The share of the time in which any of these spans is open."""
        if not len(self.asked) or not len(during.time):
            return Held(float("nan"), 0)
        is_in = during.level_at(self.asked) > 0
        slept_ns = np.where(is_in, self.slept, 0).astype(float)
        is_late = self.until > self.asked
        inside = np.nan_to_num(during.share_from(1, self.asked, self.until))
        waited_ns = inside * (self.until - self.asked)
        whole_ns = float((slept_ns + waited_ns).sum())
        held_ns = float((slept_ns * is_late + waited_ns).sum())
        return Held(held_ns / whole_ns if whole_ns else float("nan"), int(is_in.sum()))

    def held_during_calls(self, trace: Trace) -> Held:
        """The share of the time in which calls are under way."""
        return self.held(_under_way(trace))


def _under_way(trace: Trace) -> Steps:
    ends = trace.calls["end_ns"].fillna(window(trace)[1]).to_numpy(np.int64)
    return open_over_time(trace.calls["start_ns"].to_numpy(), ends)


class Serving(NamedTuple):
    """What the GIL of a process has to do with the calls that it serves."""

    held: Held  # of the time in which calls are under way
    while_busy: Held  # of the time in which it serves a call
    by_calls: Held
    """Of that time, what the calls hold it for, and nobody else."""
    by: Holder  # who holds it most
    functions: tuple[str, ...]  # of the calls that do, those with the most CPU time first

    @property
    def is_full(self) -> bool:
        """Whether calls hold it for nearly all of the time, so that no more could run."""
        return self.by == "calls" and self.while_busy.is_known and self.while_busy.share >= FULL

    @property
    def is_limit(self) -> bool:
        """Whether who needs the GIL has to wait for it, and it is known who holds it."""
        is_known = self.held.is_known and (self.by != "calls" or self.by_calls.is_known)
        return is_known and self.held.share - self.held.error / 2 >= HELD


def serving(trace: Trace, rank: int, taken: Mapping[int, Steps] | None = None) -> Serving:
    """Who holds the GIL of a process; `taken` is what `threads_taken` says of all."""
    samples = GilUse.of(trace, rank)
    unknown = Held(float("nan"), 0)
    held = samples.held_during_calls(trace)
    busy = (threads_taken(trace) if taken is None else taken).get(rank)
    if busy is None or not held.is_known:
        return Serving(held, unknown, unknown, "others", ())
    opened, closed = window(trace)
    while_busy = samples.held(busy)
    idle = Steps(
        np.concatenate(([opened], busy.time, [closed])),
        np.concatenate(([1], (busy.level == 0).astype(np.int64), [0])),
    )
    beside = samples.held(idle)
    # What others hold it for while it serves is not known where it always serves: their CPU time
    # says how much that may be.
    process, whole_s = trace.process(rank), max(window_length_ns(trace), 1) / 1e9
    main_share = (process.main_cpu_s or 0.0) / whole_s
    beside_share = main_share + (process.others_cpu_s or 0.0) / whole_s
    others = beside.share if beside.is_known else min(beside_share, 1.0)
    own = max(while_busy.share - others, 0.0) / max(1.0 - others, 1e-9)
    on_cpu, ready, functions = _on_cpu(trace, rank, busy)
    own = min(own, on_cpu)
    busy_ns, under_way_ns = (
        float(level.time_at_level()[1:].sum()) for level in (busy, _under_way(trace))
    )
    by: Holder = "others"
    # Few samples while it serves say nothing where it hardly does.
    may_be_calls = on_cpu * busy_ns >= HELD * held.share * under_way_ns
    if own >= HELD * while_busy.share and may_be_calls:
        by = "calls"
    elif main_share >= HELD * held.share:
        by = "main"
    # Of threads that are ready at once, only one can hold it. Where many in native code share few
    # CPUs, one that holds it for a moment may lose its CPU just then, and the others wait.
    samples_of_calls = while_busy.samples if ready <= ONE_READY else 0
    return Serving(held, while_busy, Held(own, samples_of_calls), by, functions)


def _on_cpu(trace: Trace, rank: int, busy: Steps) -> tuple[float, float, tuple[str, ...]]:
    """The CPU time of served calls over the time in which any is served; the same with what they
    waited for a CPU; and their functions."""
    calls = trace.calls[trace.calls["server_rank"] == rank]
    answer_ns = np.nan_to_num(floats(calls, "answered_ns") - floats(calls, "server_end_ns"))
    request_ns = np.nan_to_num(floats(calls, "unpickled_ns") - floats(calls, "arrived_ns"))
    cpu_ns: FloatArray = np.nan_to_num(floats(calls, "cpu_ns")) + answer_ns + request_ns
    by_name = calls.assign(cpu=cpu_ns).groupby(calls["function"].astype(str))["cpu"].sum()
    by_name = by_name.sort_values(ascending=False)
    by_name = by_name[by_name >= 0.1 * by_name.max()]
    busy_ns = float(busy.time_at_level()[1:].sum())
    ready_ns = float(cpu_ns.sum() + np.nansum(floats(calls, "run_queue_ns")))
    share, ready = (ns / max(busy_ns, 1.0) for ns in (float(cpu_ns.sum()), ready_ns))
    return share, ready, tuple(map(str, by_name.index))

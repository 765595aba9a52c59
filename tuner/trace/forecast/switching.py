"""What another switch interval of Python changes in a program: the waits for a GIL that is held.

A thread that wants the GIL of a process asks for it after one interval, and has it then. Where
threads that serve no calls hold it, what takes a call k intervals longer than it must is k such
waits, each of which becomes as long as the new interval and what a switch costs. Calls that hold it
themselves take turns in the replay.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from tuner.text import listed
from tuner.trace.analyze.gil_use import HELD, GilUse, Serving, serving
from tuner.trace.analyze.server_parallelism import threads_taken, window_length_ns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast.changed import LATE, WIDE
from tuner.trace.forecast.program import COMPUTE_WITH_GIL, HOLD_LOCK, SLEEP, Op, Program
from tuner.trace.forecast.replay import Machine, replay
from tuner.trace.forecast.ways import UNHINDERED
from tuner.trace.model.trace import FloatArray, Trace

COSTS = ((60_000.0, 1.0), (20_000.0, 0.0), (200_000.0, 3.0))
"""What a switch takes beside the interval, usually, at least and at most, in nanoseconds: to wake
two threads. And how often each of several calls that waited for the same switch waits then."""
SHORT, LONG = 0.02, 0.25  # of an interval: a wait may be so much shorter, or longer
WHOLE, FEW = 0.6, 8  # the share of waits that end with an interval where Python holds the GIL
MOST_TAKEN = 4  # how often a call wants the GIL on one way
NS_PER_BYTE, TO_OTHERS = 1, 10
"""What a large request may take on its way within a host, and to another at 1 Gbit/s: no wait."""
OTHER_WAITS = (0.5, 3.0)
"""So many times as many waits as in a trace other runs have: whether who holds the GIL has it again
between two wishes for it is chance, and the recorder wants it, too."""
SMALL = 1e-3
OFF_CPU = (SLEEP, HOLD_LOCK)  # what a function that is off the CPU is taken to do
WOKEN = 2  # times in each wait: when an interval is over, and when the GIL is there


class Switch(NamedTuple):
    """How the waits for the GIL of a process change."""

    was_ns: float
    is_ns: float
    cost_ns: float
    is_main: bool  # whether its main thread holds the GIL, or others that serve no calls
    is_asked: bool  # whether who holds it lets go of it when asked for it, and not before

    @property
    def each_ns(self) -> float:
        """A wait."""
        return self.is_ns + self.cost_ns * (self.is_ns < self.was_ns)

    def waits(self, ns: float, most: float = math.inf) -> float:
        """How many there are in what takes so long."""
        return min((ns + SHORT * self.was_ns) // self.was_ns, most)

    def after(self, ns: float, waits: float, least_ns: float = 0.0) -> float:
        """How long it takes then; the waits take no less than this, if they did not."""
        was = min(waits * self.was_ns, ns)
        return ns - was + max(waits * self.each_ns, min(was, least_ns))

    def ways(
        self, ns: FloatArray, by_bytes: FloatArray, names: pd.Series, turns: FloatArray
    ) -> FloatArray:
        """Ways, on each of which a call may want the GIL several times; of so many that waited at
        once each waits for itself, no longer than it did."""
        own = np.maximum(ns - by_bytes, 0.0)
        waits = np.minimum((own + SHORT * self.was_ns) // self.was_ns, MOST_TAKEN)
        rest = np.maximum(own - waits * self.was_ns, 0.0)
        if not self.is_asked:
            least = pd.Series(rest).groupby(names.array).transform("quantile", UNHINDERED)
            rest = np.minimum(rest, least.to_numpy() + self.each_ns)
        each_ns = np.full(len(ns), self.each_ns)
        if self.is_ns < self.was_ns:
            each_ns = np.minimum(each_ns * turns, max(self.was_ns, self.each_ns))
        found: FloatArray = ns - own + rest + waits * each_ns
        return found

    def python(self, ops: Sequence[Op]) -> list[Op]:
        """What computes with the GIL, as it seems: others have it in turns."""
        return [(kind, self._in_turns(ns) if kind == COMPUTE_WITH_GIL else ns) for kind, ns in ops]

    def _in_turns(self, ns: float) -> float:
        if not self.waits(ns):
            return ns
        waits = self.waits((ns + self.was_ns) / 2)
        return self.after(ns, waits, ns - waits * self.was_ns)

    def served(self, ops: Sequence[Op], woken: float) -> list[Op]:
        """What a function does, whose thread was given a CPU so often."""
        off_ns = sum(ns for kind, ns in ops if kind in OFF_CPU)
        computes_ns = sum(ns for kind, ns in ops if kind == COMPUTE_WITH_GIL)
        waits = self.waits(off_ns, woken // WOKEN)
        if not waits:
            return [*ops]
        part = self.after(off_ns, waits, computes_ns) / off_ns
        return [(kind, ns * part if kind in OFF_CPU else ns) for kind, ns in ops]

    def between(self, ops: Sequence[Op]) -> list[Op]:
        """What a thread of the program does between its calls: it wants the GIL after each."""
        return [
            (kind, self.after(ns, self.waits(ns, 1)) if kind == SLEEP else ns)
            for kind, ns in self.python(ops)
        ]


class Switched(NamedTuple):
    """What other intervals do."""

    programs: list[Program]  # with the usual cost of a switch
    base_ns: list[float]  # how long the replay of each takes
    log: float  # log(that / as it was), and its ends
    low: float
    high: float


def switched(
    trace: Trace, part: Trace, programs: Sequence[tuple[Program, float]],
    machines: tuple[Machine, Machine], limits_ns: Sequence[float],
) -> Switched | str:  # fmt: skip
    """What the intervals of another machine do to the programs of a part of a trace, each with the
    time that its replay took on the first one; or why that is not known."""
    was, now = machines
    ranks = [r for r in trace.ranks if was.switch_ns[r.rank] != now.switch_ns[r.rank]]
    if unknown := [rank.name for rank in ranks if rank.switch_interval_s is None]:
        return f"the trace does not tell the switch interval of {listed(unknown)}"
    taken = threads_taken(trace)
    holders = {rank.rank: serving(trace, rank.rank, taken) for rank in ranks}
    logs, likely = list[list[float]](), list[tuple[Program, float]]()
    for program, base_ns in programs:
        late = replay(program, was).late(limits_ns)
        switches = dict(_switches(trace, program, holders, machines))
        known = {rank: switch for rank, switch in switches.items() if switch.is_asked}
        for case in [switches] if known == switches else [switches, known]:
            own = list[float]()
            for cost in COSTS if case else COSTS[:1]:  # nothing costs anything
                new = _with(program, part, case, *cost)
                found = replay(new, now)
                if found.blocked or found.late(limits_ns) > late:
                    return LATE
                own.append(math.log(max(found.took_ns, 1.0) / base_ns))
                if case is switches and cost == COSTS[0]:
                    likely.append((new, max(found.took_ns, 1.0)))
            logs.append(own)
    low, high = min(map(min, logs)), max(map(max, logs))
    if high - low > math.log(WIDE):
        return "it depends on whether calls wait for a GIL, which the trace does not show"
    usual = [own[0] for own in logs]
    parts = {b / a for a, b in zip(was.switch_ns, now.switch_ns, strict=True) if a != b}
    ends = [_with_waits(end, part, n) for end in (low, high) for part in parts for n in OTHER_WAITS]
    low, high = min(low, *ends), max(high, *ends)
    changed, took_ns = ([*column] for column in zip(*likely, strict=True))
    return Switched(changed, took_ns, (min(usual) + max(usual)) / 2, low, high)


def _with_waits(log: float, part: float, number: float) -> float:
    """What an interval of this part of the traced one does, log(time then / time as it was), if
    there were so many times as many waits as in the trace."""
    waited = (1 - math.exp(log)) / (1 - part)  # of the time as it was
    more = (number - 1) * min(max(waited, 0.0), 1.0)
    return math.log(max(math.exp(log) + more * part, SMALL) / (1 + more))


def _switches(
    trace: Trace, program: Program, holders: Mapping[int, Serving],
    machines: tuple[Machine, Machine],
) -> Iterator[tuple[int, Switch]]:  # fmt: skip
    """By rank: how waits change for a GIL that is not held by the calls themselves."""
    whole_s = max(window_length_ns(trace), 1) / 1e9
    for rank, found in holders.items():
        if found.by == "calls":
            continue
        was_ns, is_ns = (machine.switch_ns[rank] for machine in machines)
        main_s, others_s = (
            trace.process(rank).main_cpu_s or 0.0, trace.process(rank).others_cpu_s or 0.0,
        )  # fmt: skip
        computes = main_s + others_s >= HELD * whole_s
        is_held = found.is_limit if found.held.is_known else computes
        is_asked = is_held and _are_whole(trace, program, rank, was_ns)
        yield rank, Switch(was_ns, is_ns, 0.0, main_s >= others_s, is_asked)


def _are_whole(trace: Trace, program: Program, rank: int, interval_ns: float) -> bool:
    """Whether what waits for a GIL for an interval or longer has it as soon as that is over, by
    samples or by calls: where the CPUs are full, not all wait for the GIL alone."""
    there = [call.to_server for call in program.calls if call.server == rank]
    back = [call.to_client for call in program.calls if call.client == rank]
    waits = (GilUse.of(trace, rank).waited_ns, np.array(there), np.array(back))
    beyond = [_beyond(wait, interval_ns) for wait in waits]
    return any(
        len(each) >= FEW and float(np.mean(each < LONG * interval_ns)) >= WHOLE for each in beyond
    )


def _beyond(took_ns: FloatArray, interval_ns: float) -> FloatArray:
    """How much longer than whole intervals it takes what lasts one at least, and than the others of
    these are."""
    longer = took_ns[took_ns >= (1 - SHORT) * interval_ns] + SHORT * interval_ns
    rest = np.mod(longer, interval_ns)
    return rest - np.quantile(rest, UNHINDERED) if len(rest) else rest


def _with(
    program: Program, part: Trace, switches: Mapping[int, Switch], cost_ns: float, each: float
) -> Program:
    """The program with other waits for the GILs of these ranks, by an entry of COSTS."""
    calls, roots, rows = list(program.calls), list(program.roots), part.calls
    woken = np.nan_to_num(floats(rows, "slices")).tolist()
    turns = np.maximum(each * _at_once(part), 1.0)
    hosts = np.array(program.hosts)
    server, client = (np.array([getattr(c, end) for c in calls]) for end in ("server", "client"))
    per_byte = np.where(hosts[server] == hosts[client], NS_PER_BYTE, TO_OTHERS)
    bytes_there, bytes_back = (
        per_byte * np.nan_to_num(floats(rows, f"{end}_bytes")) for end in ("request", "answer")
    )
    there, back = (np.array([getattr(c, to) for c in calls]) for to in ("to_server", "to_client"))
    for rank, of_rank in switches.items():
        switch = of_rank._replace(cost_ns=cost_ns)
        serves, is_either = server == rank, (server == rank) | (client == rank)
        there = np.where(serves, switch.ways(there, bytes_there, rows["name"], turns), there)
        back = np.where(is_either, switch.ways(back, bytes_back, rows["name"], turns), back)
        for place in np.flatnonzero(is_either).tolist():
            call, of = calls[place], dict[str, list[Op]]()
            if serves[place]:
                of["ops"] = switch.served(call.ops, woken[place])
                of |= {
                    name: switch.python(getattr(call, name)) for name in ("unpickles", "pickles")
                }
            if client[place] == rank:
                of["receives"] = switch.python(call.receives)
            if any(ops != [*getattr(call, name)] for name, ops in of.items()):
                calls[place] = replace(call, **of)  # type: ignore[arg-type]
        roots = [
            replace(root, ops=switch.between(root.ops))
            if root.rank == rank and root.is_main != switch.is_main else root
            for root in roots
        ]  # fmt: skip
    ways = zip(calls, there.tolist(), back.tolist(), strict=True)
    calls = [replace(call, to_server=to, to_client=fro) for call, to, fro in ways]
    return replace(program, calls=calls, roots=roots)


def _at_once(part: Trace) -> FloatArray:
    """How many calls are on their way to the server of each call at some time of its own way; 0
    where it is alone."""
    calls, found = part.calls, np.zeros(len(part.calls))
    start = floats(calls, "start_ns")
    served = np.fmax(np.fmin(floats(calls, "server_start_ns"), floats(calls, "end_ns")), start)
    for server in calls["server_rank"].unique():
        own = (calls["server_rank"] == server).to_numpy()
        begun = np.searchsorted(np.sort(start[own]), served[own], "right")
        found[own] = begun - np.searchsorted(np.sort(served[own]), start[own], "left")
    return np.where(found > 1, found, 0.0)

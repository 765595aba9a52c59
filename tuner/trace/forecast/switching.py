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

from tuner.roles import role_of
from tuner.text import listed
from tuner.trace.analyze.gil_use import HELD, GilUse, serving
from tuner.trace.analyze.server_parallelism import window_length_ns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast.changed import LATE, WIDE
from tuner.trace.forecast.forecasts import ALL, Forecast, Model, WhatIf, error_of
from tuner.trace.forecast.program import COMPUTE_WITH_GIL, ISSUE, SLEEP, Op, Program, Root
from tuner.trace.forecast.replay import replay
from tuner.trace.forecast.ways import UNHINDERED
from tuner.trace.model.trace import FloatArray, Trace

USUAL_NS, COSTS_NS = 60_000.0, (20_000.0, 200_000.0)
"""What a switch takes beside the interval, usually, and at least and at most: to wake two threads.
"""
SHORT, LONG = 0.02, 0.15  # of an interval: a wait may be so much shorter, or longer
WHOLE = 0.7  # so many waits of samples last whole intervals where Python holds the GIL throughout
MOST_TAKEN = 4  # how often a call wants the GIL on one way
NS_PER_BYTE = 10  # what a large request may take on its way, at 1 Gbit/s, is no wait for the GIL
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
        if self.is_ns < self.was_ns:
            return self.is_ns + self.cost_ns
        return self.is_ns if self.is_asked else self.was_ns

    def waits(self, ns: float, most: float = math.inf) -> float:
        """How many there are in what takes so long."""
        return min((ns + SHORT * self.was_ns) // self.was_ns, most)

    def after(self, ns: float, waits: float, least_ns: float = 0.0) -> float:
        """How long it takes then; the waits take no less than this, if they did not."""
        was = min(waits * self.was_ns, ns)
        return ns - was + max(waits * self.each_ns, min(was, least_ns))

    def ways(self, ns: FloatArray, by_bytes: FloatArray, names: pd.Series) -> FloatArray:
        """Ways, on each of which a call may want the GIL several times."""
        own = np.maximum(ns - by_bytes, 0.0)
        waits = np.minimum((own + SHORT * self.was_ns) // self.was_ns, MOST_TAKEN)
        rest = np.maximum(own - waits * self.was_ns, 0.0)
        if not self.is_asked:
            least = pd.Series(rest).groupby(names.array).transform("quantile", UNHINDERED)
            rest = np.minimum(rest, least.to_numpy() + self.each_ns)
        return ns - own + rest + waits * self.each_ns

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
        off_ns, computes_ns = (_ns_of(ops, kind) for kind in (SLEEP, COMPUTE_WITH_GIL))
        waits = self.waits(off_ns, woken // WOKEN)
        if not waits:
            return [*ops]
        part = self.after(off_ns, waits, computes_ns) / off_ns
        return [(kind, ns * part if kind == SLEEP else ns) for kind, ns in ops]

    def between(self, ops: Sequence[Op]) -> list[Op]:
        """What a thread of the program does between its calls: it wants the GIL after each."""
        return [
            (kind, self.after(ns, self.waits(ns, 1)) if kind == SLEEP else ns)
            for kind, ns in self.python(ops)
        ]


def forecast(model: Model, what_if: WhatIf) -> Forecast:
    """What a configuration would do, whose switch intervals may be others."""
    asked, others = what_if.intervals_s or {}, replace(what_if, intervals_s=None)
    now_ns = [*model.machine.switch_ns]
    for rank in model.trace.ranks:
        role, own_s = role_of(rank.name, model.roles), now_ns[rank.rank] / 1e9
        now_ns[rank.rank] = asked.get(role, asked.get(ALL, own_s)) * 1e9
    if np.allclose(now_ns, model.machine.switch_ns):
        return model.forecast(others)
    found = _switched(model, now_ns)
    if isinstance(found, str):
        return Forecast(why_not=found)
    first, after = found
    return first.then(after.forecast(others))


def _switched(model: Model, now_ns: Sequence[float]) -> tuple[Forecast, Model] | str:
    """What these intervals do, by rank, and the model with them; or why that is not known."""
    trace, was_ns = model.trace, model.machine.switch_ns
    ranks = [each for each in trace.ranks if now_ns[each.rank] != was_ns[each.rank]]
    if unknown := [each.name for each in ranks if each.switch_interval_s is None]:
        return f"the trace does not tell the switch interval of {listed(unknown)}"
    machine, logs = model.machine._replace(switch_ns=now_ns), list[float]()
    likely, is_known = list[tuple[Program, float]](), True
    for program, base_ns in zip(model.programs, model.base_ns, strict=True):
        late = replay(program, model.machine).late(model.limits_ns)
        for cost_ns in (USUAL_NS, *COSTS_NS):
            switches = dict(_switches(trace, [each.rank for each in ranks], was_ns, now_ns, cost_ns))
            is_known = all(each.is_asked for each in switches.values())
            new = _with(program, model.part, switches)
            found = replay(new, machine)
            if found.blocked or found.late(model.limits_ns) > late:
                return LATE
            logs.append(math.log(max(found.took_ns, 1.0) / base_ns))
            if cost_ns == USUAL_NS:
                likely.append((new, max(found.took_ns, 1.0)))
    if not is_known:
        logs.append(0.0)
    low, high = min(logs), max(logs)
    if high - low > math.log(WIDE):
        return "it depends on whether calls wait for a GIL, which the trace does not show"
    middle = logs[0] if is_known else (low + high) / 2
    error, ratio = error_of(middle, 0.0, model.off_by), model.of_all(middle)
    after = replace(
        model, programs=[each for each, _ in likely], base_ns=[ns for _, ns in likely],
        machine=machine, took_ns=model.took_ns * math.exp(middle), rest=model.rest / math.exp(middle),
    )  # fmt: skip
    found = Forecast(
        ratio=ratio, ratio_low=model.of_all(low - error), ratio_high=model.of_all(high + error)
    )
    return found, after


def _switches(
    trace: Trace, ranks: Sequence[int], was_ns: Sequence[float], now_ns: Sequence[float],
    cost_ns: float,
) -> Iterator[tuple[int, Switch]]:  # fmt: skip
    """By rank: how waits change for a GIL that is not held by the calls themselves."""
    for rank in ranks:
        found, process = serving(trace, rank), trace.process(rank)
        if found.is_limit and found.by == "calls":
            continue
        main_share = (process.main_cpu_s or 0.0) * 1e9 / max(window_length_ns(trace), 1)
        waited_ns = GilUse.of(trace, rank).waited_ns
        beyond = np.mod(waited_ns / was_ns[rank] + SHORT, 1.0)
        is_whole = (waited_ns > (1 - SHORT) * was_ns[rank]) & (beyond < SHORT + LONG)
        is_asked = found.is_limit and float(np.mean(is_whole)) >= WHOLE
        is_main = main_share >= HELD * found.held.share
        yield rank, Switch(was_ns[rank], now_ns[rank], cost_ns, is_main, is_asked)


def _with(program: Program, part: Trace, switches: Mapping[int, Switch]) -> Program:
    """The program with other waits for the GILs of these ranks."""
    calls, roots, rows = list(program.calls), list(program.roots), part.calls
    woken = np.nan_to_num(floats(rows, "slices")).tolist()
    by_bytes = NS_PER_BYTE * np.nan_to_num(floats(rows, "request_bytes"))
    nothing = np.zeros(len(calls))
    server, client = (np.array([getattr(c, end) for c in calls]) for end in ("server", "client"))
    there, back = (np.array([getattr(c, to) for c in calls]) for to in ("to_server", "to_client"))
    for rank, switch in switches.items():
        serves, is_either = server == rank, (server == rank) | (client == rank)
        there = np.where(serves, switch.ways(there, by_bytes, rows["name"]), there)
        back = np.where(is_either, switch.ways(back, nothing, rows["name"]), back)
        for place in np.flatnonzero(is_either).tolist():
            call = calls[place]
            if serves[place]:
                ops = switch.served(call.ops, woken[place])
                unpickles, pickles = switch.python(call.unpickles), switch.python(call.pickles)
                call = replace(call, ops=ops, unpickles=unpickles, pickles=pickles)
            if client[place] == rank:
                call = replace(call, receives=switch.python(call.receives))
            calls[place] = call
        roots = [
            replace(root, ops=switch.between(root.ops))
            if root.rank == rank and root.is_main != switch.is_main else root
            for root in roots
        ]  # fmt: skip
    ways = zip(calls, there.tolist(), back.tolist(), strict=True)
    calls = [replace(call, to_server=to, to_client=fro) for call, to, fro in ways]
    return replace(program, calls=calls, roots=roots)


def _ns_of(ops: Sequence[Op], kind: int) -> float:
    return sum(ns for each, ns in ops if each == kind)

"""How long a changed program would take, beside the one that was traced, in an interval.

What calls cost their processes on the CPU is modelled (`call_costs`), so that calls under way at
once are not taken to cost nothing. What of that the trace does not tell is assumed in several ways,
and the interval spans them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast.ahead import are_full, loops_of
from tuner.trace.forecast.call_costs import SHARES, call_costs, with_call_costs
from tuner.trace.forecast.change import DRIVER, LARGE, Change, ChangeKind, Changing
from tuner.trace.forecast.changes import KINDS, changed
from tuner.trace.forecast.program import HOLD_LOCK, Program
from tuner.trace.forecast.replay import Machine, Replayed, replay
from tuner.trace.forecast.resampling import resampled
from tuner.trace.forecast.runs import Made, runs_of, usual_number
from tuner.trace.forecast.sending import messages_of, of_messages
from tuner.trace.forecast.sharing import callers_at_once
from tuner.trace.forecast.ways import Ways
from tuner.trace.model.trace import Trace

MOST_FUNCTIONS = 8  # that take the most time
RESAMPLES = 3
MOST_RESAMPLED = 500  # calls: the sum of more hardly varies, and each replay takes time
WIDE = 2.5  # cases that are further apart say nothing
ALIKE = 1.25  # as it was, the replay of a case may be so far from the trace, in either direction
LARGE_PART = 0.2  # of the time of the calls of a function
LITTLE = 0.03  # log(ratio): what changes less needs no closer look
MORE_AT_ONCE = ("together", "ahead", "callers", "servers", "gil", "no-lock")
"""After these more runs at once."""
ORDER: Sequence[ChangeKind] = (
    "together", "one-call", "ahead", "tensors", "pickle-once", "fetch-once", "faster", "bytes",
    "no-sleep", "no-lock", "gil", "callers", "servers", "batch",
)  # fmt: skip
"""Changed callers are copied, their calls shared, and these made batches."""
IN_DOUBT = ("tensors", "pickle-once")  # what these would cost is not in the trace
DOUBTS = (1.0, 2.0)
"""How many times as much it may be, the most likely first."""
PARTS, FULL_PARTS = (1.0, 2.0), (2.0, 1.0, math.inf)
"""What computes, all of it or one part in so many, may be beside a call that is issued ahead, the
most likely first; the others where that finds no free logical CPU."""
IDLE_NS = 1e6
NO_LOCK = " and no lock of their server"
BOTH_ENDS = "; from as long as one call to as long as all of them"
NOTHING = "the trace shows nothing in the program that it changes"
HOLDS_NOT = "the model of what calls cost their processes does not hold"
COSTS = "what its calls cost its processes"
LATE = "calls would take longer than their time limit, and fail"
LASTS = HOLD_LOCK  # the last of what takes a frame some time
CLOSE = 0.05  # of log(replay / trace): what fits no better is not more likely


class Case(NamedTuple):
    """A program that a trace may show, and how long its replay takes unchanged."""

    of: Changing
    base_ns: float
    off_by: float  # log(that / the trace)
    late: int  # how many of its calls take longer than their time limits
    is_locked: bool  # whether its calls hold a lock of which the trace does not tell
    program: Program  # without what its calls cost


class Replays(NamedTuple):
    """What changes do to the time of a program."""

    log: float  # log(time after / time before), in the most likely case
    low: float  # the lowest, and the highest, of all cases
    high: float
    spread: float  # its standard deviation over resampled service times
    off_by: float  # of the most likely case
    needs_cpus: bool  # whether more runs at once than before
    condition: str  # what must hold for it


class Changeable:
    """The programs of a trace, with what their calls cost, for changes."""

    def __init__(
        self, trace: Trace, part: Trace, ways: Ways, programs: Sequence[Program], machine: Machine,
        limits_ns: Sequence[float], took_ns: float, unknown: str,
    ) -> None:  # fmt: skip
        """`part` took so long; `unknown` is what makes the programs differ."""
        self.programs, self.machine, self.limits_ns = programs, machine, limits_ns
        self.took_ns, self.unknown = took_ns, unknown or COSTS
        calls = part.calls
        self.costs = call_costs(trace, part, ways)
        took = (floats(calls, "end_ns") - floats(calls, "start_ns")).tolist()
        sites = calls["site"].astype(str).tolist() if "site" in calls else [""] * len(calls)
        self.made = Made(calls["kind"].astype(str).tolist(), sites, took)
        self.messages = messages_of(calls)
        # What takes long to pickle is on its way for long.
        is_large = calls[["answered_ns", "received_ns", "arrived_ns"]].notna().any(axis=1)
        size = np.where(is_large, math.inf, floats(calls, "request_bytes"))
        self.bytes = np.nan_to_num(size, nan=math.inf).tolist()
        self.at_once = callers_at_once(part.calls)
        asleep = call_times(calls)["off_cpu_us"].median() * 1e3
        self.awake = SHARES[1] if asleep > IDLE_NS else SHARES[0]
        """The part of a way that a call takes where it finds its processes awake, as those do that
        follow each other closely; where calls usually find them idle, half is to wake them."""

    @cached_property
    def cases(self) -> list[Case]:
        """Those that fit the trace, of each program the most likely one first."""
        return [case for program in self.programs for case in self._cases_of(program)]

    def _cases_of(self, program: Program) -> list[Case]:
        likely_first = sorted(SHARES[:2], key=lambda share: share != self.awake)
        costly = [self._case(program, share) for share in likely_first]
        fit = [case for case in costly if abs(case.off_by) <= math.log(ALIKE)]
        if costly[0] not in fit:
            fit.append(self._case(program, SHARES[2]))
        off = [abs(case.off_by) for case in fit]
        likely = 0 if off[0] <= min(off) + CLOSE else off.index(min(off))
        return [fit[likely], *fit[:likely], *fit[likely + 1 :]]

    def replays(self, changes: Sequence[Change], machine: Machine | None = None) -> Replays | str:
        """What these changes do, one upon the other; or why that is not known."""
        changes = sorted(changes, key=lambda change: ORDER.index(change.kind))
        cases = self._cases_for(changes, machine)
        if not cases:
            return HOLDS_NOT
        if not (bounds := self._bounds(changes)):
            return NOTHING
        ends = list[list[float]]()
        for bound in bounds:
            logs = self._logs(cases, bound, machine)
            if isinstance(logs, str):
                return logs
            if max(logs) - min(logs) > math.log(WIDE):
                return f"it depends on {self.unknown}, which the trace does not show"
            ends.append(logs)
        every = [log for logs in ends for log in logs]
        is_small = max(map(abs, every)) < LITTLE
        return Replays(
            float(np.mean([logs[0] for logs in ends])), min(every), max(every),
            0.0 if is_small else self._spread(bounds[0], machine), cases[0].off_by,
            any(change.kind in MORE_AT_ONCE for change in changes), self._condition(changes, cases),
        )  # fmt: skip

    def _logs(
        self, cases: Sequence[Case], changes: Sequence[Change], machine: Machine | None
    ) -> list[float] | str:
        """By case: log(time after / time before); or why that is not known."""
        logs = list[float]()
        for case in cases:
            after = self._after(case, changes, machine)
            if after is None:
                if not logs:
                    return NOTHING
                logs.append(0.0)  # nothing, if this is how it is
                continue
            if after.blocked:
                return f"the driver would wait for {after.blocked}"
            if after.late(self.limits_ns) > case.late:
                return LATE
            logs.append(math.log(max(after.took_ns, 1.0) / case.base_ns))
        return logs

    def _bounds(self, changes: Sequence[Change]) -> list[list[Change]]:
        """These changes; where it is not known what a batch costs, with the least and the most;
        none where no callers would share one."""
        callers = math.prod(each.number for each in changes if each.kind == "callers")
        least, most = list[Change](), list[Change]()
        for change in changes:
            low = high = change
            if change.kind == "batch":
                number = change.number or self.at_once.get(change.function, 0) * callers
                own = {c.client for c in self.programs[0].calls if c.function == change.function}
                if number < 2 or len(own) * callers < 2:
                    return []
                low = replace(change, number=number, times=change.times or 1.0)
                high = replace(change, number=number, times=change.times or number)
            least.append(low)
            most.append(high)
        return [least, most] if least != most else [least]

    def _cases_for(self, changes: Sequence[Change], machine: Machine | None) -> list[Case]:
        """Those in which these changes may differ."""
        found = self.cases
        if not any(change.kind in MORE_AT_ONCE for change in changes):
            # What calls cost stays as it is: each program in its most likely case.
            found = [*{id(case.program): case for case in reversed(found)}.values()][::-1]
        if any(change.kind == "bytes" for change in changes):
            parts = self.costs.size_parts[0]
            found = [*found, *(c._replace(of=c.of._replace(size_parts=parts)) for c in found)]
        if any(change.kind == "one-call" or change.function == DRIVER for change in changes):
            found = [*found, *map(_between_is_work, found)]
        if any(change.kind in IN_DOUBT for change in changes):
            found = [c._replace(of=c.of._replace(doubt=doubt)) for doubt in DOUBTS for c in found]
        if any(change.kind == "ahead" for change in changes):
            of_work = FULL_PARTS if are_full(machine or self.machine) else PARTS
            found = [c._replace(of=c.of._replace(of_work=part)) for part in of_work for c in found]
        return found

    def _condition(self, changes: Sequence[Change], cases: Sequence[Case]) -> str:
        said = dict.fromkeys(KINDS[change.kind].condition for change in changes)
        is_locked = any(case.is_locked for case in cases) and _are_together(changes)
        is_open = any(change.kind == "batch" and not change.times for change in changes)
        return "; ".join(filter(None, said)) + NO_LOCK * is_locked + BOTH_ENDS * is_open

    def _after(
        self, case: Case, changes: Sequence[Change], machine: Machine | None = None
    ) -> Replayed | None:
        """The replay of a case after the changes, on this machine or that of the trace."""
        of = self._changed(case, changes, machine)
        return None if of is None else replay(of.program, of.machine)

    def _changed(
        self, case: Case, changes: Sequence[Change], machine: Machine | None
    ) -> Changing | None:
        of = case.of
        if machine is not None:
            own = of.machine._replace(threads=machine.threads, cpus=machine.cpus)
            of = of._replace(machine=own)
        # Calls that were made one after another cannot show that they would wait for a lock.
        free = [Change(kind="no-lock")] if case.is_locked and _are_together(changes) else []
        for change in [*free, *changes]:
            new = changed(of, change)
            if new is None:
                return None
            of = of._replace(program=new[0], machine=new[1])
        return of

    def after(self, changes: Sequence[Change]) -> tuple[Program, Machine, float] | None:
        """The program after changes in the most likely case, its machine, and how long it takes;
        None where that is not known."""
        of = self._changed(self.cases[0], changes, None) if self.cases else None
        return of and (of.program, of.machine, replay(of.program, of.machine).took_ns)

    def _spread(self, changes: Sequence[Change], machine: Machine | None) -> float:
        """The standard deviation of log(ratio) over resampled service times."""
        known = []
        for case in self._others:
            after = self._after(case, changes, machine)
            if after is not None and 0 < after.took_ns < math.inf:
                known.append(math.log(after.took_ns / case.base_ns))
        return float(np.std(known, ddof=1)) if len(known) > 1 else 0.0

    @cached_property
    def _others(self) -> list[Case]:
        random = np.random.default_rng(0)
        number = RESAMPLES if len(self.programs[0].calls) <= MOST_RESAMPLED else 0
        return [self._case(resampled(self.programs[0], random), SHARES[0]) for _ in range(number)]

    def candidates(self) -> list[Change]:
        """Every change that the program may take, of each function and line by itself."""
        if not self.cases:
            return []
        program = self.cases[0].of.program
        runs = runs_of(program, self.made)
        of_runs = [
            Change(kind=kind, function=label[0], site=label[1], number=usual_number(runs, *label))
            for label in dict.fromkeys((run.function, run.site) for run in runs)
            for kind in ("together", "one-call")
        ]  # fmt: skip
        return [
            *of_messages(self.cases[0].of),
            *of_runs,
            *dict.fromkeys(
                Change(kind="ahead", function=loop.function, site=loop.site)
                for loop in loops_of(program, self.made, self.costs.fixed_ns)
                # A large request may hold what the work has made.
                if all(self.messages[call].request_bytes < LARGE for call in loop.calls)
            ),
            *(Change(kind="faster", function=function) for function in [*self._longest(), DRIVER]),
            *self._of_servers(), Change(kind="no-lock"), Change(kind="gil"),
            Change(kind="servers"),
        ]  # fmt: skip

    def _of_servers(self) -> Iterator[Change]:
        """Batches of what several callers ask for at once, and smaller messages where large ones
        take much of a call."""
        calls = self.programs[0].calls
        for function in self._longest():
            if (number := self.at_once.get(function, 0)) > 1:
                yield Change(kind="batch", function=function, number=number)
            own = [
                place
                for place, call in enumerate(calls)
                if call.function == function and not self.messages[place].has_many
            ]
            ways = zip(self.costs.size_parts[0], (self.costs.there, self.costs.back), strict=True)
            by_size = sum(part[at] * way[at] for part, way in ways for at in own)
            if by_size > LARGE_PART * sum(self.made.took_ns[at] for at in own):
                yield Change(kind="bytes", function=function)

    def most(self, change: Change) -> float:
        """The ratio of a change, in the most likely case alone; NaN where that is not known."""
        after = self.after([change])
        return math.nan if after is None else after[2] / self.cases[0].base_ns

    def _longest(self) -> list[str]:
        """The functions on which servers spend the most time."""
        found = dict[str, float]()
        for call in self.programs[0].calls:
            if call.is_seen and call.function and not call.is_callback:
                ns = sum(value for kind, value in call.ops if kind <= LASTS)
                found[call.function] = found.get(call.function, 0.0) + ns
        return sorted(found, key=found.__getitem__, reverse=True)[:MOST_FUNCTIONS]

    def _case(self, program: Program, share: float) -> Case:
        costly, machine = with_call_costs(program, self.costs, self.machine, share)
        of = Changing(
            costly, machine, self.made, self.costs.fixed_ns, self.bytes, self.costs.by_size,
            self.costs.size_parts[1], self._polling(share), self.messages, awake=self.awake,
        )  # fmt: skip
        found = replay(costly, machine)
        base_ns = max(found.took_ns, 1.0)
        is_locked = _has_lock(program) and not _has_lock(self.programs[0])
        off_by = math.log(base_ns / self.took_ns)
        return Case(of, base_ns, off_by, found.late(self.limits_ns), is_locked, program)

    def _polling(self, share: float) -> Mapping[int, float]:
        costs = self.costs
        return {rank: cpus - share * costs.of_calls[rank] for rank, cpus in costs.used.items()}


def _between_is_work(case: Case) -> Case:
    """The case in which half of what seems to be the cost of a call, between two of them, is what
    the caller does every time."""
    fixed = {rank: ns / 2 for rank, ns in case.of.fixed_ns.items()}
    return case._replace(of=case.of._replace(fixed_ns=fixed))


def _are_together(changes: Sequence[Change]) -> bool:
    return any(change.kind == "together" for change in changes)


def _has_lock(program: Program) -> bool:
    return any(kind == HOLD_LOCK for call in program.calls for kind, _ in call.ops)

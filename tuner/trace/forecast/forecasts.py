"""How long a program would take with other worker threads, or logical CPUs: from one trace.

The program that the trace shows is replayed as it was, and with another machine. A forecast is the
ratio of the two. Its interval has three parts: the replays with resampled service times, how far
the replay of the traced configuration itself is off, and what no replay knows, MODEL_ERROR. Where
the trace does not tell what calls share, the best case and the worst span the interval.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tuner.roles import role_of
from tuner.text import listed, whole_percent
from tuner.trace.analyze.callbacks import with_callbacks
from tuner.trace.analyze.headroom import LeastThreads, least_threads, wait_for_others
from tuner.trace.analyze.path_walk import find_driver
from tuner.trace.forecast.change import Change
from tuner.trace.forecast.changed import ALIKE, LATE, Changeable
from tuner.trace.forecast.off_cpu import Known, shared_by
from tuner.trace.forecast.program import Program
from tuner.trace.forecast.replay import Machine, replay
from tuner.trace.forecast.resampling import resampled, with_other_times
from tuner.trace.forecast.switching import switched
from tuner.trace.forecast.traced_program import Case
from tuner.trace.forecast.traced_run import (
    SEEN,
    computing,
    driver_cpu_ns,
    lacks,
    machine_of,
    part_of,
    programs_of,
    rest_of,
    unknown_threads,
    unseen,
    were_cpus_taken,
)
from tuner.trace.forecast.turns import Turns
from tuner.trace.forecast.ways import Ways
from tuner.trace.model.trace import Trace

MOST_CALLS = 1500  # of a longer trace so many are replayed, from its middle
MOST_WHOLE = 50_000  # of a trace without a place to cut; they take some 10 s
RESAMPLES = 6
SHAKEN = 20  # replays with other times, which show whether it deadlocks by chance
MODEL_ERROR = 0.08
"""The standard error of log(ratio) that even an exact replay has: worlds differ."""
SMT = 1.5  # a gain by more CPUs may be so many times smaller, if two of them are one core
COMPUTING = 0.3  # from this share of their time on the CPU on, calls need CPUs
POLLED = 0.4  # of the logical CPUs: few are left for calls that compute
MOVED = 1.1  # what changes by less needs no CPUs
OVERLAP = 0.15  # the share of the time that a driver may be on the CPU while it seems to wait
WIDE = 1.5  # an interval that spans more says nothing
COMPETES = "its calls compete for few logical CPUs with polling threads"
BY_CHANCE = "whether it deadlocks depends on how long its calls happen to take"
DISTURBED = "other programs took logical CPUs while it was traced"
ALL = "*"


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """A configuration to forecast: threads and switch intervals by role, `*` for all, and logical
    CPUs per host. And changes of the program, one after another."""

    threads: Mapping[str, int] | None = None
    intervals_s: Mapping[str, float] | None = None
    cpus: int | None = None
    changes: Sequence[Change] = ()


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What one configuration would do; NaN where that is not known."""

    ratio: float = math.nan
    """Its time, over that of the traced configuration."""
    ratio_low: float = math.nan
    ratio_high: float = math.nan
    deadlock: str = ""
    """The chain of calls that wait for each other; empty where the program ends."""
    why_not: str = ""
    """Why there is no forecast; empty where there is one."""
    may_deadlock: bool = False
    """Whether that is why there is none."""
    condition: str = ""
    """What must hold for changes of the program, in words."""

    def then(self, other: "Forecast") -> "Forecast":
        """What another one makes of the program that this is of."""
        said = dict.fromkeys(filter(None, (self.condition, other.condition)))
        return replace(
            other, ratio=self.ratio * other.ratio, ratio_low=self.ratio_low * other.ratio_low,
            ratio_high=self.ratio_high * other.ratio_high, condition="; ".join(said),
        )  # fmt: skip


def forecasts(
    trace: Trace, what_ifs: Sequence[WhatIf], roles: Sequence[tuple[str, str]] = ()
) -> list[Forecast]:
    """What each configuration would do; for `roles` see `tuner.roles.role_of`."""
    model = Model.of(trace, roles)
    if isinstance(model, str):
        return [Forecast(why_not=model) for _ in what_ifs]
    return [model.forecast(what_if) for what_if in what_ifs]


@dataclass(frozen=True, kw_only=True)
class Model:
    """The programs that a trace may show, and the machine that it ran on."""

    trace: Trace
    roles: Sequence[tuple[str, str]]
    programs: Sequence[Program]  # the best case and the worst, where these differ
    machine: Machine
    base_ns: Sequence[float]  # by program: the replay of the traced configuration
    off_by: float  # log(that / what the trace took)
    unknown: str  # what makes these programs differ
    computing: float  # the share of the served time on the CPU
    is_disturbed: bool  # whether other programs took CPUs meanwhile
    least: Mapping[int, LeastThreads]
    """By server whose calls may wait for each other: what it needs not to deadlock."""
    limits_ns: Sequence[float]  # by call: after how long it fails
    rest: float  # how long the program went on after its last call, over the time of the calls
    part: Trace  # of which the programs are
    took_ns: float  # how long that took
    ways: Ways

    @classmethod
    def of(
        cls, trace: Trace, roles: Sequence[tuple[str, str]] = (), most_calls: int = MOST_CALLS
    ) -> "Model | str":
        """The model of a trace, or of so many calls from its middle; or why there is none."""
        trace = with_callbacks(trace)
        driver = find_driver(trace)
        if problem := lacks(trace, driver):
            return problem
        assert driver is not None
        is_served = trace.calls[["server_start_ns", "server_end_ns"]].notna().all(axis=1)
        servers = sorted(set(trace.calls.loc[is_served, "server_rank"]))
        part, took_ns = part_of(trace, driver, most_calls)
        turns = Turns.of(part)
        explained = set(part.calls.loc[[*turns.places], "call_id"])
        known = {rank: shared_by(trace, rank, explained) for rank in servers}
        if problems := [server.problem for server in known.values() if server.problem]:
            return problems[0]
        if len(part.calls) > MOST_WHOLE:
            return f"{len(part.calls):,} calls without a break of the driver are too many to replay"
        cpu_ns, least_ns = driver_cpu_ns(trace, driver, took_ns) or (None, None)
        cases = [Case({rank: server.best for rank, server in known.items()}, False, turns)]
        if unknown := _unknown(part, known):
            cases.append(Case({rank: server.worst for rank, server in known.items()}, True, turns))
        machine, ways = machine_of(trace), Ways.of(trace)
        programs, base_ns, is_disturbed = programs_of(
            part, driver, cases, cpu_ns, machine, took_ns, ways
        )
        if problem := unknown_threads(programs[0]):
            return problem
        if least_ns is not None and least_ns > programs[0].driver_ns + OVERLAP * took_ns:
            return (
                "the driver computes while calls are under way, so it is not known for which of "
                "them it waits"
            )
        off_by = [math.log(took / took_ns) for took in base_ns]
        fits = [at for at, off in enumerate(off_by) if abs(off) <= math.log(ALIKE)]
        if not fits:
            times = f"takes {math.exp(min(off_by, key=abs)):.2f} times as long as the trace"
            what = "deadlocks" if math.isinf(min(base_ns)) else times
            return f"the model does not hold: as it was, the replay {what}"
        return cls(
            trace=trace,
            roles=roles,
            programs=[programs[at] for at in fits],
            machine=machine,
            base_ns=[base_ns[at] for at in fits],
            off_by=min((off_by[at] for at in fits), key=abs),
            unknown=unknown,
            computing=computing(trace),
            is_disturbed=is_disturbed or were_cpus_taken(trace, driver, machine),
            least=_least(trace, roles, known, explained),
            limits_ns=_limits_ns(part),
            rest=rest_of(trace, driver),
            part=part,
            took_ns=took_ns,
            ways=ways,
        )

    def forecast(self, what_if: WhatIf) -> Forecast:
        """What a configuration would do."""
        switch_ns = self._switch_ns(what_if.intervals_s or {})
        if switch_ns != [*self.machine.switch_ns]:
            return self._switched(switch_ns, replace(what_if, intervals_s=None))
        machine = self._changed(what_if)
        if machine == self.machine and not what_if.changes:
            return Forecast(ratio=1.0, ratio_low=1.0, ratio_high=1.0)
        if doubt := self._may_deadlock(machine):
            return Forecast(why_not=doubt, may_deadlock=True)
        if what_if.cpus is not None and self.is_disturbed:
            return Forecast(why_not=DISTURBED)
        if what_if.changes:
            return self._after(what_if.changes, machine)
        ends = [replay(program, machine) for program in self.programs]
        shaken = [replay(program, machine) for program in self._shaken]
        if len({bool(end.blocked) for end in (*ends, *shaken)}) > 1 and shaken:
            return Forecast(why_not=BY_CHANCE)
        if all(end.blocked for end in ends):
            return Forecast(ratio=math.inf, ratio_low=math.inf, ratio_high=math.inf,
                            deadlock=ends[0].blocked)  # fmt: skip
        if sum(end.late(self.limits_ns) for end in ends) > self._late_as_traced:
            return Forecast(why_not=LATE)
        took = [max(end.took_ns, 1.0) for end in ends]
        logs = [math.log(after / base) for after, base in zip(took, self.base_ns, strict=True)]
        low, high = min(logs), max(logs)
        if high - low > math.log(WIDE):
            return Forecast(why_not=f"it depends on {self.unknown}, which the trace does not show")
        middle = (low + high) / 2
        if self.computing >= COMPUTING and abs(middle) > math.log(MOVED):
            if self._polls():
                return Forecast(why_not=COMPETES)
            if self.is_disturbed:
                return Forecast(why_not=DISTURBED)
        error = _error(middle, self._spread(machine), self.off_by)
        # Two logical CPUs of a core are no two cores.
        less = self.computing * min(abs(middle), math.log(SMT))
        ratio, least = self._of_all(middle), math.exp(2 * MODEL_ERROR)
        return Forecast(
            ratio=ratio,
            ratio_low=min(self._of_all(low - error - less * (middle > 0)), ratio / least),
            ratio_high=max(self._of_all(high + error + less * (middle < 0)), ratio * least),
        )

    @cached_property
    def changeable(self) -> Changeable:
        """Its programs, for changes."""
        return Changeable(
            self.trace, self.part, self.ways, self.programs, self.machine, self.limits_ns,
            self.took_ns, self.unknown,
        )  # fmt: skip

    def _switch_ns(self, asked_s: Mapping[str, float]) -> list[float]:
        found = [*self.machine.switch_ns]
        for rank in self.trace.ranks:
            asked = asked_s.get(role_of(rank.name, self.roles), asked_s.get(ALL))
            found[rank.rank] = found[rank.rank] if asked is None else asked * 1e9
        return found

    @cached_property
    def _by_intervals(self) -> "dict[tuple[float, ...], tuple[Forecast, Model]]":
        """What is known of intervals by rank: it is asked for again beside other threads."""
        return {}

    def _switched(self, switch_ns: Sequence[float], others: WhatIf) -> Forecast:
        """What other switch intervals do, by rank, and then the rest of a configuration."""
        known, key = self._by_intervals, tuple(switch_ns)
        if key not in known:
            known[key] = self._with_intervals(switch_ns)
        first, after = known[key]
        return first if first.why_not else first.then(after.forecast(others))

    def _with_intervals(self, switch_ns: Sequence[float]) -> "tuple[Forecast, Model]":
        """What other switch intervals do alone, and the model of the program with them."""
        machine = self.machine._replace(switch_ns=switch_ns)
        pairs = [*zip(self.programs, self.base_ns, strict=True)]
        found = switched(self.trace, self.part, pairs, (self.machine, machine), self.limits_ns)
        if isinstance(found, str):
            return Forecast(why_not=found), self
        error, times = _error(found.log, 0.0, self.off_by), math.exp(found.log)
        ends = (self._of_all(log) for log in (found.low - error, found.high + error))
        after = replace(
            self, programs=found.programs, base_ns=found.base_ns, machine=machine,
            took_ns=self.took_ns * times, rest=self.rest / times,
        )  # fmt: skip
        first = Forecast(ratio=self._of_all(found.log), ratio_low=next(ends), ratio_high=next(ends))
        return first, after

    def _after(self, changes: Sequence[Change], machine: Machine) -> Forecast:
        """What changes of the program would do, on this machine."""
        found = self.changeable.replays(changes, machine)
        if isinstance(found, str):
            return Forecast(why_not=found)
        if self.is_disturbed and self.computing >= COMPUTING and found.needs_cpus:
            return Forecast(why_not=DISTURBED)
        error = _error(found.log, found.spread, found.off_by)
        # Two logical CPUs of a core are no two cores.
        less = self._on_cpu * min(max(-found.log, 0.0), math.log(SMT)) * found.needs_cpus
        return Forecast(
            ratio=self._of_all(found.log),
            ratio_low=self._of_all(found.low - error),
            ratio_high=self._of_all(found.high + error + less),
            condition=found.condition,
        )

    def most(self, change: Change) -> float:
        """The ratio of a change, without an interval; NaN where it is not known."""
        return self._of_all(math.log(max(self.changeable.most(change), 1e-9)))

    @cached_property
    def _on_cpu(self) -> float:
        """The share of the calls' time that their functions are on the CPU."""
        calls = self.part.calls
        took = (calls["end_ns"] - calls["start_ns"]).sum()
        return float((calls["cpu_ns"].sum()) / max(took, 1))

    def _of_all(self, log_ratio: float) -> float:
        """The ratio of the calls' time as one of all: what comes after the last call stays."""
        return (math.exp(log_ratio) + self.rest) / (1 + self.rest)

    @cached_property
    def _late_as_traced(self) -> int:
        """How many calls take longer than their time limits with the traced configuration."""
        return sum(replay(program, self.machine).late(self.limits_ns) for program in self.programs)

    def _may_deadlock(self, machine: Machine) -> str:
        """Why fewer threads than were traced may not do; empty if they surely do."""
        for rank, least in self.least.items():
            if machine.threads[rank] < min(least.at_least, self.machine.threads[rank]):
                return least.doubt(self.trace.process(rank).name)
        return ""

    def _polls(self) -> bool:
        """Whether threads that poll want most of the logical CPUs of a host."""
        pairs = zip(self.machine.polling, self.machine.cpus, strict=True)
        return any(polling >= POLLED * cpus for polling, cpus in pairs)

    def _changed(self, what_if: WhatIf) -> Machine:
        threads = list(self.machine.threads)
        for rank in self.trace.ranks:
            role = role_of(rank.name, self.roles)
            asked = what_if.threads or {}
            threads[rank.rank] = asked.get(role, asked.get(ALL, threads[rank.rank]))
        cpus = self.machine.cpus
        if what_if.cpus is not None:
            cpus = [float(what_if.cpus)] * len(cpus)
        return self.machine._replace(threads=threads, cpus=cpus)

    @cached_property
    def _others(self) -> list[tuple[Program, float]]:
        """Programs with resampled service times, and how long each takes as it was."""
        random, program = np.random.default_rng(0), self.programs[0]
        # The more calls, the less their sum varies.
        number = min(RESAMPLES, RESAMPLES * MOST_CALLS // len(program.calls))
        programs = [resampled(program, random) for _ in range(number)]
        return [(each, replay(each, self.machine).took_ns) for each in programs]

    @cached_property
    def _shaken(self) -> list[Program]:
        """Programs whose calls take other times; none where no call waits for a semaphore."""
        random, program = np.random.default_rng(0), self.programs[0]
        number = max(1, min(SHAKEN, SHAKEN * MOST_CALLS // len(program.calls)))
        number *= bool(program.permits)
        return [with_other_times(program, random) for _ in range(number)]

    def _spread(self, machine: Machine) -> float:
        """The standard deviation of log(ratio) over resampled service times."""
        ratios = [replay(program, machine).took_ns / base_ns for program, base_ns in self._others]
        known = [math.log(ratio) for ratio in ratios if 0 < ratio < math.inf]
        return float(np.std(known, ddof=1)) if len(known) > 1 else 0.0


def _error(log_ratio: float, spread: float, off_by: float) -> float:
    """Half the width of an interval of log(ratio), but for what the trace does not tell."""
    # A time that stays as it was is not off as the replay is.
    return 2 * math.hypot(spread, MODEL_ERROR, off_by * min(abs(log_ratio) / math.log(2), 1.0))


def _limits_ns(trace: Trace) -> list[float]:
    """The time limit of each call; infinite where there is none, or it is not known."""
    limits_s = trace.calls["timeout_s"].astype(float).fillna(0.0)
    return limits_s.where(limits_s > 0, math.inf).mul(1e9).tolist()


def _unknown(trace: Trace, known: Mapping[int, Known]) -> str:
    """What makes the best case and the worst differ; empty where they do not."""
    differ = [trace.process(rank).name for rank, each in known.items() if each.best != each.worst]
    said = [f"whether the calls to {listed(differ)} hold the GIL, or a lock"] if differ else []
    if (share := unseen(trace)) > 1 - SEEN:
        said.insert(0, f"how calls were served that take {whole_percent(share)} of all time")
    return listed(said)


def _least(
    trace: Trace,
    roles: Sequence[tuple[str, str]],
    known: Mapping[int, Known],
    explained: Collection[int],
) -> dict[int, LeastThreads]:
    """What servers need whose calls may wait for each other: not in turns that are known."""
    by_role = {least.role: least for least in least_threads(trace, roles)}
    found = {}
    for rank, server in known.items():
        role = role_of(trace.process(rank).name, roles)
        is_explained = server.best.off_ns is not None or server.best.waits_for_gil
        in_turns = server.best == server.worst and is_explained
        if role in by_role and not in_turns and wait_for_others(trace, rank, explained):
            found[rank] = by_role[role]
    return found

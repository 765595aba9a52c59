"""A program that is tuned as it is, as its first runs showed it."""

import math
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

from pydantic import Field

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.frozen_model import FrozenModel
from tuner.plan.knobs import INTRA_OP_THREADS, KNOBS, Value
from tuner.plan.measuring import LEAST_START_S
from tuner.plan.objectives import (
    ACTIVE_FROM_FIRST,
    LEAST_SERVED,
    METRIC,
    OBJECTIVES,
    PER_CALL,
    Kind,
    Objective,
    ms_per_call,
)
from tuner.plan.program_request import ProgramRequest
from tuner.plan.workload_spec import Ranks, RankSpec, WorkloadSpec
from tuner.text import duration, first_of, three_digits

# Of a function that sets up, there are fewer calls; and so many tell how often it is called.
LEAST_OF_WORK, LEAST_OF_MIX = 8, 20
# A run that takes so many times as long as the latest one is stuck; or as the first one, which was
# cold: a cold run may come after warm ones.
STUCK_RUN, STUCK_COLD_RUN = 10, 2


class SteadyPart(FrozenModel):
    """The part of a program's runs that stands for all of each."""

    warm_up_s: float
    window_s: float
    world_s: float  # about how long a run takes that is ended after it


class ProgramSpec(ProgramRequest, Ranks):
    """A program as its first runs showed it."""

    ranks: tuple[RankSpec, ...] = Field(min_length=1)
    own: dict[str, dict[str, Any]]  # what the program itself gives each role, by knob, as JSON
    calls: tuple[int, ...]  # of each run that was not ended as soon as its calls had begun
    functions: tuple[dict[str, int], ...] = ()  # the same by what is called; empty: not known
    active_s: tuple[float | None, ...] = ()  # in how many seconds each run made them
    run_s: tuple[float, ...] = ()  # how long each run took, in seconds: the first one cold
    shuts_down: bool  # whether every rank calls `shutdown`
    own_network: bool  # whether it runs in a network namespace of its own
    has_world_size: bool = True  # else its ranks may join late and leave early
    steady: SteadyPart | None = None
    why_whole: str = ""  # why no part of a run stands for all of it, if that matters
    was_cut: bool = False  # whether no run was seen to its end: what would come there is not known
    starts: str = ""  # how its runs start, and why: `warm: ...` or `cold: ...`, if that is known
    sets_intra_op_threads: bool = False  # itself, after what the tool can set

    kind: ClassVar[Kind] = "program"
    has_steps: ClassVar = False  # a world of it is one run

    @cached_property
    def own_config(self) -> Config:
        """What the program itself gives each role."""
        return Config.from_json(self.own)

    def default_of(self, role: str, knob: str) -> Value:
        """What the program gives a role; where roles differ, all roles have the driver's."""
        asked = self.roles[0] if role == ALL_ROLES else role
        return self.own_config.for_role(asked).get(knob, KNOBS[knob].default)

    def fingerprint(self) -> dict[str, Any]:
        """What studies of it must have in common, apart from the ranks."""
        asked = self.model_dump(
            mode="json",
            include={*ProgramRequest.model_fields} - {"window_is_chosen", "whole_runs"},
        )
        return {**asked, "own": self.own}

    def measured(self) -> dict[str, Any]:
        """What a recommendation says of it."""
        asked = self.model_dump(mode="json", include={*ProgramRequest.model_fields})
        return {"program": asked, "own": self.own_config}

    def named_baseline(self, baseline: Config) -> Config:
        """What a command has to name of a baseline: what the program does not give itself."""
        found = {k: v for k, v in baseline.items if v != self.default_of(k.role, k.knob)}
        return Config.of(found)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What a page says of it: names, each with a phrase."""
        starts = [("start of each run", self.starts)] if self.starts else []
        return [("program", self.reference), *starts]

    @property
    def longest_run_s(self) -> float:
        """How long a run may take that is not stuck, in seconds; infinite where none went well."""
        if not self.run_s:
            return math.inf
        return max(LEAST_START_S, STUCK_RUN * self.run_s[-1], STUCK_COLD_RUN * self.run_s[0])

    @property
    def usual_s(self) -> float:
        """About how long a run takes, in seconds; 0 where none went well."""
        if self.window_is_chosen and self.steady is not None:
            return self.steady.world_s
        return self.run_s[-1] if self.run_s else 0.0

    def sooner_s(self, run_s: float) -> float:
        """How many seconds later runs are shorter than one of so many, which had no window."""
        is_shorter = self.window_is_chosen and self.steady is not None
        return run_s - self.usual_s if is_shorter else 0.0

    @property
    def may_vary(self) -> bool:
        """Whether one run at most was seen to its end: others may make more or fewer calls."""
        return len(self.calls) == 1 and (self.was_cut or len(self.run_s) > 1)

    @property
    def varies(self) -> bool:
        """Whether its runs were seen to make more or fewer calls."""
        return len(set(self.calls)) > 1

    @property
    def work(self) -> tuple[str, ...]:
        """The functions that it calls equally often in each of several runs."""
        if len(self.functions) < 2:
            return ()
        first, *others = self.functions
        same = [each for each in first if all(run.get(each) == first[each] for run in others)]
        return tuple(same)

    @property
    def does_fixed_work(self) -> bool:
        """Whether its runs do the same work, as far as they show, though their numbers of calls
        may differ: then it is the others that it calls again and again until something is done.

        It calls some function as often in each; of few such calls, which may only set up, the time
        of a run must not go with the number of all calls.
        """
        if not self.varies:
            return not self.may_vary
        fixed = max((self.functions[0][name] for name in self.work), default=0)
        if not fixed or fixed >= LEAST_OF_WORK:
            return fixed > 0
        known = [active for active in self.active_s if active]
        if len(known) < len(self.calls) or not all(self.calls):
            return False
        spread, of_time = (max(counts) / min(counts) for counts in (self.calls, known))
        return math.log(of_time) < math.log(spread) / 2

    @property
    def mix(self) -> dict[str, float]:
        """The share of each function in its calls, of those that it calls often in each run; empty
        where there are fewer than two."""
        if not all(self.functions) or not self.functions:
            return {}
        total = sum(sum(run.values()) for run in self.functions)
        often = [
            name
            for name in self.functions[0]
            if min(run.get(name, 0) for run in self.functions) >= LEAST_OF_MIX
        ]
        if len(often) < 2:
            return {}
        return {name: sum(run[name] for run in self.functions) / total for name in often}

    @property
    def objective_name(self) -> str:
        """What to make small where nobody says: the time per call where only that compares. A rank
        tells how many calls it has made as it shuts down, or where there is a window."""
        if self.metric is not None:
            return METRIC.name
        if self.window_s is None and not self.shuts_down:
            return "wall_s"
        if self.window_s is not None or not self.does_fixed_work:
            return "ms_per_call"
        return "rpc_active_s"

    def objective(self, name: str) -> Objective:
        """The objective of this name, as it is of this program."""
        objective = OBJECTIVES[name]
        if name == "rpc_active_s" and not self.has_world_size:
            return replace(objective, label=ACTIVE_FROM_FIRST)
        if name == PER_CALL and (mix := self.mix):
            return replace(objective, label=LEAST_SERVED, read=partial(ms_per_call, mix=mix))
        if (metric := self.metric) is None or name != METRIC.name:
            return objective
        return replace(
            METRIC, label=metric.name, table_heading=metric.name, maximize=metric.maximize
        )

    def why_compared(self, objective: Objective) -> str:
        """What of its runs is compared, and why, as a clause."""
        if self.window_s is not None:
            said = ", in a window of each run"
            if self.window_is_chosen and not self.was_cut and self.steady:
                seconds = f"{three_digits(self.window_s)} s after {three_digits(self.warm_up_s)} s"
                said += f": {seconds}, as a whole one takes {duration(max(self.run_s))}"
            return said
        if self.why_whole:
            return f", of whole runs: {self.why_whole}"
        counts = " and ".join(map(str, self.calls))
        if objective.name != PER_CALL:
            if not (self.varies and self.does_fixed_work and objective.is_of_run):
                return ""
            same = first_of([name for name in self.work if name], 2)
            what = same or "all of them"
            return f": the number of calls varies ({counts}), but not that of {what}"
        if self.may_vary:
            return ", as one run alone was seen to its end, and others may make more or fewer calls"
        varies = f", because the number of calls varies from run to run: {counts}"
        return varies if self.varies else ""


Subject = WorkloadSpec | ProgramSpec  # what is tuned; it says itself what a world of it is


def intra_op_threads(subject: Subject, config: Config | None = None) -> dict[str, int]:
    """What `torch.set_num_threads` each role has with a configuration; None: by itself."""
    config, knob = config or Config.of({}), INTRA_OP_THREADS.name
    threads = {role: config.value_of(Dimension(role, knob), subject) for role in subject.roles}
    return {role: count for role, count in threads.items() if isinstance(count, int)}


def intra_op_text(subject: Subject, config: Config | None = None) -> str:
    """The same in words: `1`, or `2 (agent), 1 (observer)`."""
    threads = intra_op_threads(subject, config)
    if len(set(threads.values())) == 1:
        return str(next(iter(threads.values())))
    return ", ".join(f"{count} ({role})" for role, count in threads.items())

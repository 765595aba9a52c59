"""Compares values of the switch interval in a few runs of the baseline, in which they take turns.

What it finds orders what is measured; it is no evidence of the verdict.
"""

import math
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from tuner.decide.live_comparison import LEAST_RUNS, LiveRun, circuit_of, compare_live, turns_of
from tuner.plan.config import Config
from tuner.plan.knobs import SWITCH_INTERVAL
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.space import Space
from tuner.plan.study_plan import StudyPlan
from tuner.searching.measurer import Measurer
from tuner.study.live_evidence import intervals_in
from tuner.study.log import BASELINE
from tuner.study.records import Live
from tuner.world.launcher import LiveOrder
from tuner.world.measurement import Measurement
from tuner.world.slicing import Schedule, SliceRate

SHARE, MOST_RUNS = 0.2, 6  # of the budget, for so many runs at most
MOST_LATE = 1.5  # a machine that is busy meanwhile makes them so many times as long at most
MOST_MEASURED_S = 5.0  # in one of them
WARM_UP_S = 0.3  # of a run beside it, before values take turns
LEAST_SLICE_S, MOST_SLICE_S = 0.05, 1.0
LEAST_DONE = 20  # steps or calls in the longest slice, or what a slice did is chance
USUAL_DONE = 6  # in a slice: many short slices tell more than few long ones, as speed drifts
LEFT_OUT = 0.25  # of a slice, after its beginning
LEFT_INTERVALS = 4  # and so many times the longest interval: so late a thread may get the GIL
LEAST_CIRCUITS = 1.5  # in a run: some slices will be lost
_OBJECTIVES = ("step_ms", "rpc_active_s", "ms_per_call")  # those that rates tell of


class LivePlan(NamedTuple):
    """How values take turns."""

    runs: int
    measured_s: float  # of each run
    slice_s: float
    left_out_s: float

    @classmethod
    def of(
        cls, values: int, *, rate: float, interval_s: float, fixed_s: float, run_s: float,
        total_s: float,
    ) -> Self | str:  # fmt: skip
        """The plan, or why there is none, as a clause: for so many values, the longest of which is
        `interval_s`, of a baseline that does `rate` steps or calls per second. All runs may take
        `total_s`; each can be measured for `run_s`, and takes `fixed_s` beside that."""
        if rate * MOST_SLICE_S * (1 - LEFT_OUT) < LEAST_DONE:
            return f"a slice of {MOST_SLICE_S:g} s has fewer than {LEAST_DONE} steps or calls"
        left_out_s, done_s = LEFT_INTERVALS * interval_s, USUAL_DONE / rate
        slice_s = max(LEAST_SLICE_S, left_out_s + max(left_out_s, done_s), done_s / (1 - LEFT_OUT))
        if slice_s > MOST_SLICE_S:
            return "an interval is too long for slices"
        least_s = LEAST_CIRCUITS * circuit_of(values) * slice_s
        longest_s = min(MOST_MEASURED_S, run_s)
        for runs in range(MOST_RUNS, LEAST_RUNS - 1, -1):
            measured_s = min(longest_s, total_s / runs - fixed_s)
            if measured_s >= least_s:
                left_out_s = max(left_out_s, LEFT_OUT * slice_s)
                return cls(runs, measured_s, slice_s, left_out_s)
        return f"the {'run' if longest_s < least_s else 'budget'} is too short for it"


def compare_intervals(measurer: Measurer) -> None:
    """Compare the values of the space, beside the baseline's other knobs, where that can be done;
    a study does it once."""
    log = measurer.log
    configs = live_configs(measurer.plan)
    first = log.calibration(BASELINE)
    if first is None or log.live is not None or len(configs) < 2 or log.blocks("race"):
        return
    documents = tuple(config.to_json() for config in configs)
    total_s = min(SHARE * measurer.budget.total_s, measurer.free_s)
    subject = measurer.plan.subject
    if isinstance(subject, ProgramSpec) and subject.varies:
        why = "the number of calls varies, so that it does not show how fast the program gets on"
        measurer.keep_live(Live(configs=documents, why_not=why))
        return
    if isinstance(plan := _plan(first, measurer.plan, configs, total_s), str):
        measurer.keep_live(Live(configs=documents, why_not=plan))
        return
    measurer.begin("calibration")
    runs = [*_runs(measurer, configs, plan)]
    if (found := compare_live(runs, len(configs))) is None:
        slices = ", ".join(str(len(run.turns)) for run in runs)
        why = f"too few runs went well, with {slices or 'no'} slices in which it changed in time"
        measurer.keep_live(Live(configs=documents, why_not=why))
        return
    gains = tuple(tuple(run) for run in found.gains.round(6).tolist())
    measurer.keep_live(Live(configs=documents, gains=gains, remembers=found.remembers))


def live_configs(plan: StudyPlan) -> list[Config]:
    """The baseline, and what differs from it in the switch interval alone, where that is tuned and
    can be changed in all ranks at once."""
    axes = [axis for axis in plan.space.axes if axis[0].knob == SWITCH_INTERVAL.name]
    is_time = plan.objective.name in _OBJECTIVES and plan.second_objective is None
    is_one_host = plan.launching.launcher != "ray"
    if not (is_time and is_one_host and plan.subject.has_gil):
        axes = []
    distinct = {intervals_in(plan.baseline, plan): plan.baseline}
    for config in Space(tuple(axes)).grid():
        one = Config.of({**plan.baseline.values, **config.values})
        distinct.setdefault(intervals_in(one, plan), one)
    return [*distinct.values()]


def _plan(
    first: Measurement, plan: StudyPlan, configs: Sequence[Config], total_s: float
) -> LivePlan | str:
    done = first.program.calls if first.program else first.steps or len(first.step_s)
    intervals = {float(str(each)) for config in configs for each in intervals_in(config, plan)}
    return LivePlan.of(
        len(configs), rate=done / first.wall_s, interval_s=max(intervals),
        fixed_s=_fixed_s(first), run_s=first.wall_s if first.program else MOST_MEASURED_S,
        total_s=total_s,
    )  # fmt: skip


def _fixed_s(first: Measurement) -> float:
    """What a run takes beside what is measured of it, by the baseline's first world."""
    return max(0.0, first.world_s - first.wall_s) + WARM_UP_S


def expected_s(plan: StudyPlan, first: Measurement) -> float:
    """About how long a search compares intervals within runs, by the baseline's first world."""
    configs = live_configs(plan)
    if len(configs) < 2:
        return 0.0
    found = _plan(first, plan, configs, SHARE * plan.measuring.budget_s)
    return 0.0 if isinstance(found, str) else found.runs * (found.measured_s + _fixed_s(first))


def _runs(measurer: Measurer, configs: Sequence[Config], plan: LivePlan) -> Iterator[LiveRun]:
    """What each run yields, until one fails, or they have taken far too long."""
    circuit, budget, began_s = circuit_of(len(configs)), measurer.budget, measurer.budget.spent_s
    circuits = math.ceil(MOST_MEASURED_S / plan.slice_s / circuit)
    for number in range(plan.runs):
        seed = f"{measurer.measuring.seed}/live/{number}"
        turns = tuple(turns_of(len(configs), circuits, seed))
        schedule = Schedule(time.monotonic(), plan.slice_s, plan.left_out_s, turns)
        live = LiveOrder(configs=tuple(configs), schedule=schedule)
        outcome = measurer.run_live(live, plan.measured_s)
        if not isinstance(outcome, Measurement):
            return
        yield _as_arrays(outcome.slices, circuit)
        late = 1.0 if number + 1 >= LEAST_RUNS else MOST_LATE
        if budget.spent_s - began_s > late * SHARE * budget.total_s:
            return


def _as_arrays(slices: Sequence[SliceRate], circuit: int) -> LiveRun:
    numbers, turns, before = np.array([each[:3] for each in slices], np.int64).reshape(-1, 3).T
    return LiveRun(numbers // circuit, turns, before, np.array([each[3] for each in slices]))

"""What a first trace adds to a default space."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tuner.plan.config import ALL_ROLES, Dimension
from tuner.plan.draft import PlanDraft
from tuner.plan.knobs import INTRA_OP_THREADS, NUM_WORKER_THREADS, SWITCH_INTERVAL
from tuner.plan.program_spec import intra_op_threads
from tuner.plan.space import Space
from tuner.plan.study_plan import StudyPlan
from tuner.searching.beginning import Forecasts, forecasts_of
from tuner.searching.fitting import WHOLE
from tuner.searching.inspecting import Facts, Spent
from tuner.searching.searched_space import Notify, numbers_of_intra_op_threads
from tuner.trace.analyze.pools import computes_in_parallel
from tuner.trace.analyze.server_evidence import in_long_operators_ns
from tuner.trace.analyze.server_parallelism import window_length_ns

_LEAST_COMPUTING = 0.05  # of the time, in operators long enough to be shared among threads


class Widened(NamedTuple):
    """A plan, and what the trace told of its threads where that was asked already."""

    plan: StudyPlan
    forecasts: Forecasts | None = None


def widened(
    draft: PlanDraft, plan: StudyPlan, facts: Facts, spent_s: Spent, notify: Notify
) -> Widened:
    """The plan, with what a traced world of the baseline calls for in a default space, where there
    is time for it and for what it adds: `intra_op_threads` where operators compute, and
    `switch_interval` where calls wait for the GIL."""
    found = Widened(plan)
    if not facts.chooses_space:
        return found
    threads = numbers_of_intra_op_threads(plan)
    if threads and plan.subject.sets_intra_op_threads:
        notify(
            f"{INTRA_OP_THREADS.name} is not searched: the program calls torch.set_num_threads "
            "after init_rpc"
        )
    elif threads and _computes(facts):
        draft, forecasts = _with_intra_op_threads(draft, plan, threads, facts, spent_s, notify)
        found = Widened(draft.finish(plan.subject), forecasts)
    asked = [each for each in facts.suggestions if each.knob == SWITCH_INTERVAL.name]
    if facts.traced is None or not (asked and plan.subject.has_gil):
        return found
    wider = _with_axis(draft, SWITCH_INTERVAL.name, asked[0].values).finish(plan.subject)
    if not _is_time_for(wider, found.plan, facts, spent_s()):
        return found
    notify(
        f"{SWITCH_INTERVAL.name} is searched too: calls wait for the GIL while another thread "
        "computes"
    )
    return Widened(wider)  # what the trace tells of intervals was not asked


def _is_time_for(wider: StudyPlan, plan: StudyPlan, facts: Facts, spent_s: float) -> bool:
    """Whether the budget is enough for all of a plan of more, or too short for the plan as it is,
    so that only the best bets are measured."""
    assert facts.traced is not None
    if not facts.fit(wider, facts.run or facts.traced[0], spent_s).is_short:
        return True
    # Of a workload no world has been timed yet.
    return facts.run is not None and facts.fit(plan, facts.run, spent_s).is_short


def _with_axis(draft: PlanDraft, knob: str, values: str) -> PlanDraft:
    added, _ = Space.parse([(knob, values)])
    return replace(draft, space=Space((*draft.space.axes, *added.axes)))


def _computes(facts: Facts) -> bool:
    """Whether operators of the ranks compute for long enough to share the work among threads. A
    program that ran, and was too long to be traced, may."""
    if facts.traced is None:
        return facts.run is not None
    _, trace = facts.traced
    pools_s = [each.pool_cpu_s for each in trace.ranks if each.pool_cpu_s is not None]
    has_pools = any(pools_s)
    are_told = bool(pools_s) and max(intra_op_threads(facts.subject).values()) > 1
    if are_told and not (has_pools and trace.operators_recorded):
        # However little they use: a thread that waits for its pool loses far more.
        return has_pools
    window_ns = window_length_ns(trace)
    takes_part = any(computes_in_parallel(rank, window_ns / 1e9) for rank in trace.ranks)
    return takes_part or in_long_operators_ns(trace) >= _LEAST_COMPUTING * window_ns


def _with_intra_op_threads(
    draft: PlanDraft, plan: StudyPlan, threads: Sequence[int], facts: Facts, spent_s: Spent,
    notify: Notify,
) -> tuple[PlanDraft, Forecasts | None]:  # fmt: skip
    """The draft with their numbers. Where the budget is too short for the whole grid, they take the
    place of the numbers of worker threads that the forecast has alike."""
    knob, world = INTRA_OP_THREADS.name, facts.run or (facts.traced and facts.traced[0])
    wider = _with_axis(draft, knob, ",".join(map(str, threads)))
    computes = "compute" if facts.traced else "may compute"
    said = f"{knob} is searched too, as operators {computes}"
    if world is None or facts.fit(wider.finish(plan.subject), world, spent_s()) == WHOLE:
        notify(said)
        return wider, None
    forecasts = forecasts_of(plan, facts, spent_s)
    alike = forecasts.alike(plan.measuring.epsilon) - {plan.threads_by_role(plan.baseline)}
    axes = [
        (axis, tuple(each for each in values if (each,) * len(plan.subject.roles) not in alike))
        if axis == Dimension(ALL_ROLES, NUM_WORKER_THREADS.name)
        else (axis, values)
        for axis, values in wider.space.axes
    ]
    if alike:
        left_out = ", ".join(str(each[0]) for each in sorted(alike))
        said += f": instead of {NUM_WORKER_THREADS.name}={left_out}, forecast to change nothing"
    notify(said)
    return replace(wider, space=Space(tuple(axis for axis in axes if axis[1]))), forecasts

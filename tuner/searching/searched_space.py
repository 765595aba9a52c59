"""The space of a search: what this machine permits of it, and what a first trace adds."""

from collections.abc import Sequence
from dataclasses import replace

from tuner.cpus import share_of_rank, usable_cpus, why_not_bound
from tuner.errors import UsageError
from tuner.plan.config import ALL_ROLES, Dimension
from tuner.plan.draft import PlanDraft
from tuner.plan.knobs import (
    CPU_BINDING,
    INTRA_OP_THREADS,
    NUM_WORKER_THREADS,
    SWITCH_INTERVAL,
)
from tuner.plan.launching import Launching
from tuner.plan.program_spec import Subject, intra_op_threads
from tuner.plan.space import Space
from tuner.plan.study_plan import StudyPlan
from tuner.process_knobs import EQUAL
from tuner.searching.beginning import FirstRuns, Notify
from tuner.searching.fitting import Fit
from tuner.searching.runner import TRACED_TIME_S, Runner, patterns_of, scratch_folder
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.server_evidence import in_long_operators_ns
from tuner.trace.analyze.server_parallelism import window_length_ns
from tuner.trace.files.reader import read_trace
from tuner.trace.model.trace import Trace
from tuner.world.launcher import Launcher
from tuner.world.measurement import Measurement

_LONGEST_TRACE = 0.1  # of the budget, to see whether to search the switch interval
_STEPS = 10  # the steps of that trace: how long one takes is not known yet
_LEAST_COMPUTING = 0.05  # of the time, in operators long enough to be shared among threads


def draft_here(draft: PlanDraft, known: Space | None, notify: Notify) -> PlanDraft:
    """The draft with the space that is searched here: no ranks are bound where none can be.

    On a cluster the hosts decide: a world that cannot be bound there fails by itself. UsageError if
    no other value of the knob is named, or the baseline binds its ranks.

    Args:
        draft: What is asked for.
        known: The space of the study that is resumed; None: it is a new one.
        notify: Gets why no ranks are bound, in a sentence.
    """
    if is_resumed := known is not None and (draft.chooses_space or draft.space == known):
        # The first session has decided it.
        draft = replace(draft, space=known, chooses_space=False)
    knob, launching = CPU_BINDING.name, draft.launching
    values = draft.space.values_of(knob)
    baseline = [value for each, value in draft.named_baseline.items if each.knob == knob]
    if launching.launcher == "ray" or EQUAL not in (*values, *baseline):
        return draft
    what, why, rest = f"{knob}={EQUAL}", why_not_bound(), draft.space.without(knob)
    if is_resumed:
        if why:
            notify(f"{what} fails from now on: {why}")
        return draft
    is_needed = EQUAL in baseline or {*values} == {EQUAL} or not rest.axes
    if why:
        if is_needed:
            where = "baseline" if EQUAL in baseline else "space"
            raise UsageError(f"{where}: {what} cannot be measured: {why}")
        notify(f"{what} is not searched: {why}")
        return replace(draft, space=rest)
    if is_needed or _cpus_of_world(launching) > 1:
        return draft
    if not draft.chooses_space:
        notify(f"{what} is not searched: a world has one logical CPU here")
    return replace(draft, space=rest)


def with_share(subject: Subject, launching: Launching) -> Subject:
    """The subject with the logical CPUs that each of its ranks has where they are bound; on a
    cluster the hosts decide."""
    if launching.launcher == "ray":
        return subject
    ranks, cpus = len(subject.ranks), _cpus_of_world(launching)
    is_whole = launching.cpus_per_world is None and launching.groups == 1
    share = len(share_of_rank(0, ranks)) if is_whole else max(1, cpus // ranks)
    return subject.model_copy(update={"cpus_of_rank": share})


def _cpus_of_world(launching: Launching) -> int:
    return launching.cpus_per_world or usable_cpus() // launching.groups


def widened(
    draft: PlanDraft, plan: StudyPlan, launcher: Launcher, runs: FirstRuns, notify: Notify
) -> StudyPlan:
    """The plan, with what a traced world of the baseline calls for in a default space, where there
    is time for it and for what it adds: `intra_op_threads` where operators compute, and
    `switch_interval` where calls wait for the GIL."""
    if not draft.chooses_space:
        return plan
    threads = _numbers_of_intra_op_threads(plan, notify)
    if not (threads or plan.subject.has_gil):
        return plan
    traced = runs.traced or _traced(plan, launcher, operators=bool(threads))
    if threads and _computes(plan, runs, traced):
        draft = _with_intra_op_threads(draft, plan, threads, runs, traced, notify)
        plan = draft.finish(plan.subject)
    if traced is None:
        return plan
    world, trace = traced
    suggestions = diagnose(trace, patterns_of(plan.subject.ranks)).suggestions
    runs.suggested = [each.knob for each in suggestions]
    found = [each for each in suggestions if each.knob == SWITCH_INTERVAL.name]
    if not (found and plan.subject.has_gil):
        return plan
    wider = _with_axis(draft, SWITCH_INTERVAL.name, found[0].values).finish(plan.subject)
    if not runs.allows(plan, wider, world):
        return plan
    notify(
        f"{SWITCH_INTERVAL.name} is searched too: calls wait for the GIL while another thread "
        "computes"
    )
    return wider


def _with_axis(draft: PlanDraft, knob: str, values: str) -> PlanDraft:
    added, _ = Space.parse([(knob, values)])
    return replace(draft, space=Space((*draft.space.axes, *added.axes)))


def _numbers_of_intra_op_threads(plan: StudyPlan, notify: Notify) -> list[int]:
    """1, the CPUs divided by the ranks, and what the ranks have by themselves, each once; none
    where these are one, or the program sets its own."""
    knob, subject = INTRA_OP_THREADS.name, plan.subject
    own = plan.baseline.value_of(Dimension(ALL_ROLES, knob), subject)
    share = max(1, _cpus_of_world(plan.launching) // len(subject.ranks))
    found = sorted({1, share, int(str(own))})
    if len(found) < 2 or plan.launching.launcher == "ray":
        return []
    if subject.sets_intra_op_threads:
        notify(f"{knob} is not searched: the program calls torch.set_num_threads after init_rpc")
        return []
    return found


def _computes(plan: StudyPlan, runs: FirstRuns, traced: tuple[Measurement, Trace] | None) -> bool:
    """Whether operators of the ranks compute for long enough to share the work among threads. A
    program that ran, and was too long to be traced, may."""
    if traced is None:
        return runs.last is not None
    _, trace = traced
    pools_s = [each.pool_cpu_s for each in trace.ranks if each.pool_cpu_s is not None]
    has_pools = any(pools_s)
    are_told = bool(pools_s) and max(intra_op_threads(plan.subject).values()) > 1
    if are_told and not (has_pools and trace.operators_recorded):
        # However little they use: a thread that waits for its pool loses far more.
        return has_pools
    return in_long_operators_ns(trace) >= _LEAST_COMPUTING * window_length_ns(trace)


def _with_intra_op_threads(
    draft: PlanDraft, plan: StudyPlan, threads: Sequence[int], runs: FirstRuns,
    traced: tuple[Measurement, Trace] | None, notify: Notify,
) -> PlanDraft:  # fmt: skip
    """The draft with their numbers. Where the budget is too short for the whole grid, they take the
    place of the numbers of worker threads that the forecast has alike."""
    knob, world = INTRA_OP_THREADS.name, runs.last or (traced and traced[0])
    wider = _with_axis(draft, knob, ",".join(map(str, threads)))
    said = f"{knob} is searched too, as operators {'compute' if traced else 'may compute'}"
    if world is None or runs.fit(wider.finish(plan.subject), world) == Fit():
        notify(said)
        return wider
    alike = runs.forecasts(plan).alike(plan.measuring.epsilon)
    alike -= {plan.threads_by_role(plan.baseline)}
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
    return replace(wider, space=Space(tuple(axis for axis in axes if axis[1])))


def _traced(
    plan: StudyPlan, launcher: Launcher, *, operators: bool
) -> tuple[Measurement, Trace] | None:
    """A short traced world of a workload, and its trace, where there is time and it goes well."""
    if not plan.subject.has_steps:
        return None
    with scratch_folder() as scratch:
        runner, most_s = Runner(plan, launcher, scratch), _LONGEST_TRACE * plan.measuring.budget_s
        world = runner.trace(plan.baseline, TRACED_TIME_S / _STEPS, most_s, operators=operators)
        if not isinstance(world, Measurement):
            return None
        return world, read_trace(scratch.trace(plan.baseline))

"""The space of a search: what this machine permits of it, and what a first trace adds."""

from dataclasses import replace

from tuner.cpus import usable_cpus, why_not_bound
from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft
from tuner.plan.knobs import CPU_BINDING, SWITCH_INTERVAL
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.space import Space
from tuner.plan.study_plan import StudyPlan
from tuner.process_knobs import EQUAL
from tuner.searching.beginning import FirstRuns, Notify
from tuner.searching.runner import TRACED_TIME_S, Runner, patterns_of, scratch_folder
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.files.reader import read_trace
from tuner.trace.model.trace import Trace
from tuner.world.launcher import Launcher
from tuner.world.measurement import Measurement

_LONGEST_TRACE = 0.1  # of the budget, to see whether to search the switch interval
_STEPS = 10  # the steps of that trace: how long one takes is not known yet


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
    cpus = launching.cpus_per_world or usable_cpus() // launching.groups
    if is_needed or cpus > 1:
        return draft
    if not draft.chooses_space:
        notify(f"{what} is not searched: a world has one logical CPU here")
    return replace(draft, space=rest)


def widened(
    draft: PlanDraft, plan: StudyPlan, launcher: Launcher, runs: FirstRuns, notify: Notify
) -> StudyPlan:
    """The plan, with `switch_interval` in a default space where calls wait for the GIL, as a traced
    world of the baseline shows, where there is time for it and for what it adds."""
    if not draft.chooses_space or not plan.subject.has_gil:
        return plan
    if (traced := runs.traced or _traced(plan, launcher)) is None:
        return plan
    world, trace = traced
    suggestions = diagnose(trace, patterns_of(plan.subject.ranks)).suggestions
    found = [each for each in suggestions if each.knob == SWITCH_INTERVAL.name]
    if not found:
        return plan
    added, _ = Space.parse([(each.knob, each.values) for each in found])
    wider = replace(draft, space=Space((*plan.space.axes, *added.axes))).finish(plan.subject)
    if not runs.allows(plan, wider, world):
        return plan
    notify(
        f"{SWITCH_INTERVAL.name} is searched too: calls wait for the GIL while another thread "
        "computes"
    )
    return wider


def _traced(plan: StudyPlan, launcher: Launcher) -> tuple[Measurement, Trace] | None:
    """A short traced world of a workload, and its trace, where there is time and it goes well."""
    if isinstance(plan.subject, ProgramSpec):
        return None
    with scratch_folder() as scratch:
        runner, most_s = Runner(plan, launcher, scratch), _LONGEST_TRACE * plan.measuring.budget_s
        world = runner.trace(plan.baseline, TRACED_TIME_S / _STEPS, most_s, operators=False)
        if not isinstance(world, Measurement):
            return None
        return world, read_trace(scratch.trace(plan.baseline))

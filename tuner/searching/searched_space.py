"""The space of a search: what this machine permits of it."""

from collections.abc import Callable
from dataclasses import replace

from tuner.cpus import share_of_rank, usable_cpus, why_not_bound
from tuner.errors import UsageError
from tuner.plan.config import ALL_ROLES, Dimension
from tuner.plan.draft import PlanDraft
from tuner.plan.knobs import CPU_BINDING, INTRA_OP_THREADS
from tuner.plan.launching import Launching
from tuner.plan.program_spec import Subject
from tuner.plan.space import Space
from tuner.plan.study_plan import StudyPlan
from tuner.process_knobs import EQUAL

Notify = Callable[[str], None]


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


def numbers_of_intra_op_threads(plan: StudyPlan) -> list[int]:
    """1, the CPUs divided by the ranks, and what the ranks have by themselves, each once; none
    where these are one, or hosts of a cluster decide."""
    own = plan.baseline.value_of(Dimension(ALL_ROLES, INTRA_OP_THREADS.name), plan.subject)
    share = max(1, _cpus_of_world(plan.launching) // len(plan.subject.ranks))
    found = sorted({1, share, int(str(own))})
    return [] if len(found) < 2 or plan.launching.launcher == "ray" else found


def other_intra_op_threads(plan: StudyPlan, *, chooses_space: bool) -> list[int]:
    """Numbers that all ranks may be given, beside their own: of a default space those that may be
    searched too."""
    knob = Dimension(ALL_ROLES, INTRA_OP_THREADS.name)
    found = {*dict(plan.space.axes).get(knob, ())}
    found.update(numbers_of_intra_op_threads(plan) if chooses_space else ())
    found.discard(plan.baseline.value_of(knob, plan.subject))
    return sorted(each for each in found if isinstance(each, int))

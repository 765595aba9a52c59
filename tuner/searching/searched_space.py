"""The space that a search measures here: what is asked for, without what cannot be set."""

from collections.abc import Callable
from dataclasses import replace

from tuner.cpus import usable_cpus, why_not_bound
from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft
from tuner.plan.knobs import CPU_BINDING
from tuner.plan.launching import Launching
from tuner.plan.space import Space
from tuner.process_knobs import EQUAL

Tell = Callable[[str], None]


def draft_here(draft: PlanDraft, known: Space | None, tell: Tell) -> PlanDraft:
    """The draft with the space that is searched here: no ranks are bound where none can be.

    Of a default space that is also where binding does nothing. On a cluster the hosts decide: a
    world that cannot be bound there fails by itself.

    Args:
        draft: What is asked for.
        known: The space of the study that is resumed; None: it is a new one.
        tell: Hears why no ranks are bound, in a sentence.

    Raises:
        UsageError: Nothing else would be left to search, or the baseline binds its ranks.
    """
    if known is not None and (draft.chooses_space or draft.space == known):
        # The first session has decided it.
        return replace(draft, space=known, chooses_space=False)
    values = draft.space.values_of(CPU_BINDING.name)
    baseline = [
        value for each, value in draft.named_baseline.items if each.knob == CPU_BINDING.name
    ]
    if draft.launching.launcher == "ray" or EQUAL not in (*values, *baseline):
        return draft
    rest, what = draft.space.without(CPU_BINDING.name), f"{CPU_BINDING.name}={EQUAL}"
    if why := why_not_bound():
        if EQUAL in baseline:
            raise UsageError(f"baseline: {what} cannot be measured: {why}")
        if {*values} == {EQUAL} or not rest.axes:
            raise UsageError(f"space: {what} cannot be measured: {why}")
        tell(f"{what} is not searched: {why}")
        return replace(draft, space=rest)
    does_nothing = draft.chooses_space and _cpus_of_a_world(draft.launching) < 2
    return replace(draft, space=rest) if does_nothing else draft


def _cpus_of_a_world(launching: Launching) -> int:
    """The logical CPUs that the ranks of a world on this machine share."""
    return launching.cpus_per_world or usable_cpus() // launching.groups

"""Whether runs of a program are ended after a part that stands for all, by what its first ones
showed."""

from tuner.plan.draft import PlanDraft
from tuner.plan.measuring import WISHED_BLOCKS
from tuner.plan.program_spec import WINDOW_FIELDS, ProgramSpec
from tuner.plan.study_plan import StudyPlan

LEAST_WORLDS = 9  # so many of a window fit: a run as it is, and four blocks of two
LEAST_PART = 1 / 4  # of the window that tells most for its time: few blocks tell less
MOST_SHARE = 0.75  # of a whole run: a window that takes longer saves too little


def may_be_windowed(draft: PlanDraft) -> bool:
    """Whether a window may be chosen: nothing is asked for that only a whole run has."""
    program, measuring = draft.program, draft.measuring
    if program is None or program.window_s is not None or program.whole_runs:
        return False
    needs_end = program.metric or program.expect or measuring.require
    if needs_end or measuring.second_objective_name is not None:
        return False
    return draft.chooses_objective or measuring.objective_name == "ms_per_call"


def windowed(draft: PlanDraft, spec: ProgramSpec) -> ProgramSpec:
    """The program with the window that its runs showed, where whole runs are too long for the
    budget; of others it does not matter why there is none."""
    whole = spec.model_copy(update={"why_whole": ""})
    if not may_be_windowed(draft) or not spec.run_s:
        return whole
    block_s = spec.run_s[-1] * len(draft.finish(spec).candidates())
    if WISHED_BLOCKS * block_s <= draft.measuring.budget_s and not spec.was_cut:
        return whole
    part = spec.steady
    if part is None or (not spec.was_cut and part.world_s > MOST_SHARE * spec.run_s[-1]):
        return spec
    # A wider interval of each world is better than too few worlds.
    beside_s = part.world_s - part.window_s
    most_s = (draft.measuring.budget_s - sum(spec.run_s)) / LEAST_WORLDS - beside_s
    window_s = min(part.window_s, max(LEAST_PART * part.window_s, most_s))
    part = part.model_copy(update={"window_s": window_s, "world_s": beside_s + window_s})
    chosen = {"window_s": window_s, "warm_up_s": part.warm_up_s, "window_is_chosen": True}
    return spec.model_copy(update={**chosen, "steady": part})


def like_before(draft: PlanDraft, known: StudyPlan) -> PlanDraft:
    """The draft with the window of the study that is resumed, or its whole runs, unless one of them
    is asked for."""
    program, before = draft.program, known.subject
    if program is None or program.window_s is not None or program.whole_runs:
        return draft
    if not isinstance(before, ProgramSpec):
        return draft
    kept = {name: getattr(before, name) for name in WINDOW_FIELDS}
    kept["whole_runs"] = before.window_s is None
    return draft.with_program(program.model_copy(update=kept))

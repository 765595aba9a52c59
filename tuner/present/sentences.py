"""What is said below the verdict: why this one, what else may be, how sure, what was tried."""

import itertools

from tuner.plan.config import Config
from tuner.plan.knobs import CPU_BINDING
from tuner.present.configurations import named
from tuner.present.knob_sentences import (
    bad_value_sentences,
    edge_sentences,
    role_sentence,
    together_sentences,
    tried_sentences,
    unmeasured_sentences,
)
from tuner.present.wording import (
    confidence,
    ends,
    epsilon,
    failing_sentences,
    fast,
    faster_or_slower,
)
from tuner.process_knobs import EQUAL
from tuner.study.answer import StudyAnswer
from tuner.study.rows import PassedOver, Preference, Reason
from tuner.text import UNTOLD, percent, plural, ratio_cell, share, whole_percent
from tuner.world.environment import DISTURBED_SHARE

_MOST_REASONS = 3
_MOST_OF_ONE_REASON = 4
"""More configurations of one reason are counted."""
_MOST_LEAST = 1.0
"""A smallest gain above this says that nothing could have been shown."""
_PREFERENCES: dict[Preference, str] = {
    "baseline": "is the baseline",
    "less-cpu": "takes less CPU",
    "fewer-threads": "has fewer threads",
}


def sentences_of(answer: StudyAnswer) -> list[str]:
    """What there is to say of the answer after its verdict, as a reader would ask."""
    said = (
        no_calls_sentence(answer),
        choice_sentence(answer),
        tied_sentence(answer),
        binding_sentence(answer),
        busy_sentence(answer),
        not_excluded_sentence(answer),
        as_good_sentence(answer),
        noise_sentence(answer),
    )
    return [
        *failing_sentences(answer),
        *together_sentences(answer),
        *filter(None, said),
        # One further search at a time: the best value first, then the roles that need it.
        *([*edge_sentences(answer)] or filter(None, [role_sentence(answer)])),
        *tried_sentences(answer),
        *bad_value_sentences(answer),
        *unmeasured_sentences(answer),
    ]


def no_calls_sentence(answer: StudyAnswer) -> str | None:
    """That nothing of what was traced makes a call; None where something does, or no trace tells.

    A workload whose step forgets its calls runs well, and its configurations are all alike.
    """
    counted = [detail.calls for detail in answer.details.values() if detail.calls is not None]
    if not counted or any(counted):
        return None
    if answer.plan.subject.kind == "program":
        return (
            "The traced runs of the program made no RPC call, so no option of RPC can matter to it."
        )
    return (
        "The traced steps made no RPC call, so no option of RPC can matter to them: make the calls "
        "to be tuned in step(), and wait there for their results."
    )


def choice_sentence(answer: StudyAnswer) -> str | None:
    """Why not what stands above the recommended configuration; None where nothing does."""
    groups: dict[tuple[Reason, Preference | None], list[PassedOver]] = {}
    for each in answer.passed_over:
        groups.setdefault((each.reason, each.preference), []).append(each)
    said = (f"{_clause(answer, group)}." for group in groups.values())
    return " ".join(itertools.islice(said, _MOST_REASONS)) or None


def _clause(answer: StudyAnswer, group: list[PassedOver]) -> str:
    first, several = group[0], len(group) > 1
    rows = [answer.by_trial[each.trial] for each in group]
    who = named([row.config for row in rows])
    if len(group) > _MOST_OF_ONE_REASON:
        who = plural(len(group), "configuration")
    if first.reason == "limit":
        broken = "break a limit" if several else f"breaks a limit ({rows[0].broken_text})"
        return f"{who} would be ahead, but {broken}"
    if first.reason == "unreliable":
        return f"{who} would be ahead, but {'fail' if several else 'fails'} too often"
    stands = "stand" if several else "stands"
    said = f"{who} {stands} above {answer.best} in the table, but {_reason(answer, group)}"
    if first.preference is None:
        return said
    return f"{said}, and {answer.best} {_PREFERENCES[first.preference]}"


def _reason(answer: StudyAnswer, group: list[PassedOver]) -> str:
    first, several = group[0], len(group) > 1
    are, faster = "are" if several else "is", faster_or_slower(answer)[0]
    by = ""
    if not several and first.paired is not None:
        by = f" ({ends(first.paired.ratio)} times as {fast(answer)})"
    match first.reason:
        case "few-blocks" if several:
            return "were measured beside it in too few blocks"
        case "few-blocks" if first.paired and first.paired.blocks:
            blocks = plural(first.paired.blocks, "block")
            return f"was measured beside it in {blocks} only, too few to tell"
        case "few-blocks":
            return "was not measured in any block with it"
        case "not-told-apart":
            two = "are not told apart from it" if several else "the two are not told apart"
            return f"{two}{by}"
        case "within-epsilon":
            return f"{are} less than {epsilon(answer)} {faster}{by}"
        case _:
            return (
                f"{are} not shown to be {faster}{by} by a comparison that holds at "
                f"{confidence(answer)} for all configurations together"
            )


def tied_sentence(answer: StudyAnswer) -> str | None:
    """What else is as fast, as far as measured; None if nothing is."""
    if answer.best is None or not answer.tied:
        return None
    verb = "is" if len(answer.tied) == 1 else "are"
    within = f"within {epsilon(answer)} of {answer.best}"
    return f"{named(answer.tied)} {verb} {within}, as far as measured."


def binding_sentence(answer: StudyAnswer) -> str | None:
    """For whom binding is, where it is recommended."""
    if answer.best is None or not answer.best.binds:
        return None
    return (
        f"{CPU_BINDING.name}={EQUAL} is for ranks that have the machine to themselves: beside "
        "other programs it may be slower, and search --check measures it again."
    )


def busy_sentence(answer: StudyAnswer) -> str | None:
    """That others disturbed the study, and what that means; None if they did not."""
    machine = answer.machine
    if machine is None or not machine.is_busy:
        return None
    return (
        f"The machine was busy: in {machine.disturbed_worlds} of "
        f"{plural(machine.worlds, 'world')} that count other programs or virtual machines took "
        f"more than {percent(DISTURBED_SHARE)} of the {plural(machine.cpus, 'logical CPU')}, and "
        f"{whole_percent(machine.taken_share)} on "
        "average over all; on a quiet machine the intervals are narrower."
    )


def not_excluded_sentence(answer: StudyAnswer) -> str | None:
    """What may be better than the best by more than epsilon; None if nothing may."""
    if answer.best_trial is None or not answer.not_excluded:
        return None
    better, worse = faster_or_slower(answer)
    behind: list[Config] = []
    others: list[Config] = []
    for trial in answer.not_excluded:
        found = answer.paired.compare(trial, answer.best_trial)
        # Behind: it would be shown to be so if no other had been compared, or earlier.
        (behind if found and found.ratio.high < 1 else others).append(answer.by_trial[trial].config)
    said = []
    if others:
        may = f"may be more than {epsilon(answer)} {better} than {answer.best}"
        said.append(f"Not excluded: {named(others)} {may}.")
    if behind:
        looks = f"{'looks' if len(behind) == 1 else 'look'} {worse} than {answer.best}"
        said.append(f"{named(behind)} {looks}, but in too few blocks to be sure.")
    return " ".join(said)


def as_good_sentence(answer: StudyAnswer) -> str | None:
    """What else may be as good as one that is recommended; None where others say it, or nothing is.

    Those that are tied as far as measured, and those that may be better still, have their own.
    """
    if answer.best is None or answer.verdict not in ("better", "tie"):
        return None
    known = [*answer.tied, *(answer.by_trial[trial].config for trial in answer.not_excluded)]
    alike = [answer.by_trial[trial].config for trial in answer.not_told_apart]
    if not (others := [config for config in alike if config not in known]):
        return None
    return (
        f"Not told apart: {named(others)} may be as {fast(answer)} as {answer.best}, and at most "
        f"{epsilon(answer)} {faster_or_slower(answer)[0]}."
    )


def noise_sentence(answer: StudyAnswer) -> str | None:
    """The smallest gain that the study could have shown; None if it compared nothing.

    Where that is so large that it says nothing, it is why, and what helps; none after `better`.
    """
    if answer.verdict is None or answer.baseline_failed or answer.challenger is None:
        return None
    least, floor = answer.least_gain, answer.noise_floor
    if least is None or least > _MOST_LEAST:
        if answer.verdict == "better":
            return None
        return (
            f"Too few blocks were measured to show any gain ({plural(answer.blocks, 'block')}): a "
            "larger --budget helps, and so do fewer values, or a quieter machine."
        )
    said = f"The smallest gain that this study could have shown is {share(least)}"
    if floor is None:
        return f"{said}."
    itself = ratio_cell(floor.estimate, floor.low, floor.high) if floor.is_told else UNTOLD
    return f"{said}; the baseline against itself, in the same blocks: {itself}."

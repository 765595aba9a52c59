"""Why the recommended configuration, and not one above it in the table: a sentence a reason."""

import itertools

from tuner.present.wording import named
from tuner.study.answer import StudyAnswer
from tuner.study.choice import PassedOver, Preference, Reason
from tuner.text import percent, plural, ratio_text

_MOST_NAMED = 4
"""More configurations of one reason are counted."""
_MOST_REASONS = 3
_PREFERENCES: dict[Preference, str] = {
    "baseline": "is the baseline",
    "less-cpu": "takes less CPU",
    "fewer-threads": "has fewer threads",
}


def choice_sentence(answer: StudyAnswer) -> str | None:
    """Why not what stands above the recommended configuration; None where nothing does."""
    if not answer.passed_over:
        return None
    groups: dict[tuple[Reason, Preference | None], list[PassedOver]] = {}
    for each in answer.passed_over:
        groups.setdefault((each.reason, each.preference), []).append(each)
    said = (f"{_clause(answer, group)}." for group in groups.values())
    return " ".join(itertools.islice(said, _MOST_REASONS))


def _clause(answer: StudyAnswer, group: list[PassedOver]) -> str:
    first = group[0]
    rows = [answer.by_trial[each.trial] for each in group]
    several = len(group) > 1
    who = named([row.config for row in rows])
    if len(group) > _MOST_NAMED:
        who = plural(len(group), "configuration")
    if first.reason == "limit":
        broken = "" if several else f" ({rows[0].broken_text})"
        return f"{who} would be ahead, but {'break' if several else 'breaks'} a limit{broken}"
    if first.reason == "unreliable":
        return f"{who} would be ahead, but {'fail' if several else 'fails'} too often"
    stands = "stand" if several else "stands"
    said = f"{who} {stands} above {answer.best} in the table, but {_why(answer, group)}"
    if first.preference is None:
        return said
    return f"{said}, and {answer.best} {_PREFERENCES[first.preference]}"


def _why(answer: StudyAnswer, group: list[PassedOver]) -> str:
    first, several = group[0], len(group) > 1
    faster = "faster" if answer.objective.is_time else "better"
    ends = "" if several else _ends(answer, first)
    epsilon = percent(answer.plan.measuring.epsilon)
    match first.reason:
        case "few-blocks":
            return _few(group)
        case "not-told-apart":
            two = "are not told apart from it" if several else "the two are not told apart"
            return f"{two}{ends}"
        case "within-epsilon":
            return f"{'are' if several else 'is'} less than {epsilon} {faster}{ends}"
        case _:
            confidence = percent(answer.plan.measuring.confidence)
            return (
                f"{'are' if several else 'is'} not shown to be {faster}{ends} by a comparison that "
                f"holds at {confidence} for all configurations together"
            )


def _few(group: list[PassedOver]) -> str:
    if len(group) > 1:
        return "were measured beside it in too few blocks"
    blocks = group[0].paired.blocks if group[0].paired else 0
    if not blocks:
        return "was not measured in any block with it"
    return f"was measured beside it in {plural(blocks, 'block')} only, too few to tell"


def _ends(answer: StudyAnswer, each: PassedOver) -> str:
    """How many times as fast it is as the recommended one, in brackets."""
    if each.paired is None:
        return ""
    ratio, how = each.paired.ratio, "fast" if answer.objective.is_time else "good"
    return f" ({ratio_text(ratio.low)} to {ratio_text(ratio.high)} times as {how})"

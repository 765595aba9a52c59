"""What is said below the verdict: why this one, what else may be, how sure, what was tried."""

import itertools
from collections.abc import Iterator

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS, IntegerKnob, SecondsKnob, Value
from tuner.present.failures import failing_sentences
from tuner.present.knob_effects import bad_value_sentences, together_sentences
from tuner.present.wording import (
    as_good_sentence,
    binding_sentence,
    busy_sentence,
    named,
    noise_sentence,
    not_excluded_sentence,
    tied_sentence,
)
from tuner.study.answer import StudyAnswer
from tuner.study.rows import PassedOver, Preference, Reason
from tuner.text import first_of, percent, plural, ratio_text

_MOST_NAMED = 3
_WHO = {"tpe": "Optuna's TPE", "gp": "Optuna's Gaussian process", "random": "chance"}


def sentences_of(answer: StudyAnswer) -> list[str]:
    """What there is to say of the answer after its verdict, in the order of a reader's questions.

    Returns:
        Sentences that the terminal, the notes and the page show one by one.
    """
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
    known = [sentence for sentence in said if sentence is not None]
    # One further search at a time: the best value first, then the roles that need it.
    further = edge_sentences(answer) or [*filter(None, [role_sentence(answer)])]
    return [
        *failing_sentences(answer),
        *together_sentences(answer),
        *known,
        *further,
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


def tried_sentences(answer: StudyAnswer) -> list[str]:
    """How much of the space was tried, and what is known of the rest; none where it was all of it.

    Returns:
        Sentences; the first says how much, each other one what was left alone and why.
    """
    sampling = answer.sampling
    if sampling is None:
        return []
    tried = len(answer.rows)
    on = "" if sampling.went_on is None else f", and the best {len(sampling.went_on)} were compared"
    rest = sampling.configs - tried
    first = (
        f"{tried:,} of {plural(sampling.configs, 'configuration')} were tried, as proposed by "
        f"{_WHO[sampling.sampler]}{on}; nothing is claimed about the other {rest:,}."
    )
    return [first, *(f"{lesson}." for lesson in sampling.lessons)]


def unmeasured_sentences(answer: StudyAnswer) -> list[str]:
    """Why configurations that did not fail are in no block; none where there is no such one.

    Of a space that was sampled, `tried_sentences` tell.
    """
    if answer.sampling is not None:
        return []
    labels: dict[str, list[str]] = {}
    for row in answer.rows:
        if row.eliminated and not row.samples:
            labels.setdefault(row.eliminated, []).append(row.label)
    if not labels:
        return []
    each = [f"{first_of(some, _MOST_NAMED)} ({reason})" for reason, some in labels.items()]
    more = sum(map(len, [*labels.values()][_MOST_NAMED:]))
    tail = [f"{more} more"] if more else []
    return [f"In no block: {'; '.join([*each[:_MOST_NAMED], *tail])}."]


_MOST_OF_ONE_REASON = 4
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
    if len(group) > _MOST_OF_ONE_REASON:
        who = plural(len(group), "configuration")
    if first.reason == "limit":
        broken = "" if several else f" ({rows[0].broken_text})"
        return f"{who} would be ahead, but {'break' if several else 'breaks'} a limit{broken}"
    if first.reason == "unreliable":
        return f"{who} would be ahead, but {'fail' if several else 'fails'} too often"
    stands = "stand" if several else "stands"
    said = f"{who} {stands} above {answer.best} in the table, but {_reason(answer, group)}"
    if first.preference is None:
        return said
    return f"{said}, and {answer.best} {_PREFERENCES[first.preference]}"


def _reason(answer: StudyAnswer, group: list[PassedOver]) -> str:
    first, several = group[0], len(group) > 1
    faster = "faster" if answer.objective.is_time else "better"
    ends = "" if several else _ratio_ends(answer, first)
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


def _ratio_ends(answer: StudyAnswer, each: PassedOver) -> str:
    """How many times as fast it is as the recommended one, in brackets."""
    if each.paired is None:
        return ""
    ratio, how = each.paired.ratio, "fast" if answer.objective.is_time else "good"
    return f" ({ratio_text(ratio.low)} to {ratio_text(ratio.high)} times as {how})"


_MOST_ROLES = 4
"""Of so many roles every combination is a search of at most 16 configurations."""


def edge_sentences(answer: StudyAnswer) -> list[str]:
    """A sentence per knob whose best value is the largest, or the smallest, of those tried.

    Only where it is shown to be better than the value next to it: else there is no reason to go on.
    Nor is there where the diagnosis says that more threads do not help.

    Returns:
        Sentences that name the flag which widens the space.
    """
    if answer.best is None or answer.verdict not in ("better", "keep-baseline"):
        return []
    return list(_edges(answer, answer.best))


def role_sentence(answer: StudyAnswer) -> str | None:
    """How to find out which roles need the best value, where all of them were given the same.

    None where nothing is shown to be better, more than one knob was tuned, the roles are many, or
    the knob cannot differ between them.
    """
    subject, dimensions = answer.plan.subject, answer.plan.space.dimensions
    if answer.verdict != "better" or answer.best is None or len(dimensions) > 1:
        return None
    (dimension,) = dimensions
    knob, chosen = KNOBS[dimension.knob], answer.best.value_of(dimension, subject)
    by_role = [Dimension(role, dimension.knob) for role in subject.roles]
    before = [answer.baseline.value_of(each, subject) for each in by_role]
    can_differ = dimension.role == ALL_ROLES and not knob.same_for_all_roles
    if not can_differ or chosen in before or not 2 <= len(by_role) <= _MOST_ROLES:
        return None
    flags = (
        f"--space {each}={knob.format(value)},{knob.format(chosen)}"
        for each, value in zip(by_role, before, strict=True)
    )
    return (
        f"All roles had the same {knob.name}. To find which role needs {knob.format(chosen)}, "
        f"search with {' '.join(flags)}."
    )


def _edges(answer: StudyAnswer, best: Config) -> Iterator[str]:
    for dimension, values in answer.plan.space.axes:
        knob = KNOBS[dimension.knob]
        numbers = sorted(each for each in values if isinstance(each, int | float))
        chosen = best.value_of(dimension, answer.plan.subject)
        if not isinstance(knob, IntegerKnob | SecondsKnob) or len(numbers) < 2:
            continue
        if chosen not in (numbers[0], numbers[-1]):
            continue
        at_top = chosen == numbers[-1]
        if at_top and _has_enough_threads(answer, dimension):
            continue
        beyond = _beyond(knob, numbers[-1] if at_top else numbers[0], at_top=at_top)
        gain = _gain_over(answer, dimension, numbers[-2] if at_top else numbers[1])
        if beyond is None or gain is None:
            continue
        which = "largest" if at_top else "smallest"
        wider = [*numbers, beyond] if at_top else [beyond, *numbers]
        flag = f"--space {dimension}={','.join(map(knob.format, wider))}"
        yield (
            f"{dimension}={knob.format(chosen)} is the {which} value tried, and {gain}: "
            f"a {'larger' if at_top else 'smaller'} one may be better still; search again with "
            f"{flag}."
        )


def _beyond(knob: IntegerKnob | SecondsKnob, edge: float, *, at_top: bool) -> Value:
    """The next value outside of the space; None where the knob has none."""
    if isinstance(knob, SecondsKnob):
        further: float = edge * 2 if at_top else edge / 2
    else:
        further = int(edge) * 2 if at_top else int(edge) // 2
    try:
        return knob.read(further)
    except ValueError:
        return None


def _has_enough_threads(answer: StudyAnswer, dimension: Dimension) -> bool:
    """Whether the best's trace shows that more of the threads of this dimension do not help."""
    assert answer.best_trial is not None
    enough = answer.by_trial[answer.best_trial].enough_threads
    roles = {ALL_ROLES, *(rank.role for rank in answer.plan.subject.ranks if rank.name in enough)}
    return dimension.knob == NUM_WORKER_THREADS.name and bool(enough) and dimension.role in roles


def _gain_over(answer: StudyAnswer, dimension: Dimension, neighbour: Value) -> str | None:
    """How much better the best is than the same with the neighbouring value; None if not shown."""
    assert answer.best is not None
    assert answer.best_trial is not None
    subject = answer.plan.subject
    other = Config.of({**answer.best.values, dimension: neighbour}).resolved(subject)
    for row in answer.rows:
        if row.config.resolved(subject) == other:
            found = answer.paired.compare(answer.best_trial, row.trial)
            if found is None or found.ratio.low <= 1:
                return None
            how = "fast" if answer.objective.is_time else "good"
            knob = KNOBS[dimension.knob]
            return (
                f"{ratio_text(found.ratio.estimate)} times as {how} as {knob.format(neighbour)} "
                f"({ratio_text(found.ratio.low)} to {ratio_text(found.ratio.high)})"
            )
    return None

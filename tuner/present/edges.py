"""What a further search would tell: beyond the edge of the space, and of each role alone."""

from collections.abc import Iterator

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS, IntegerKnob, SecondsKnob, Value
from tuner.study.answer import StudyAnswer
from tuner.text import ratio_text

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
    return list(_sentences(answer, answer.best))


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


def _sentences(answer: StudyAnswer, best: Config) -> Iterator[str]:
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

"""Sentences on the knobs: what each gave, which values are bad, what to try, what was tried."""

import math
from collections.abc import Iterator, Sequence

from tuner.decide.regions import bad_levels
from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS, IntegerKnob, SecondsKnob, Value
from tuner.present.configurations import grid_of, named_value, short_names, with_knob
from tuner.present.wording import ends, epsilon, fast, faster_or_slower
from tuner.study.answer import StudyAnswer
from tuner.study.together import BestThreads, Interaction
from tuner.text import duration, first_of, listed, plural, ratio_text

_MOST_NAMED = 3
_MOST_FORECAST = 6
_MOST_ROLES = 4
"""Of so many roles every combination is a search of at most 16 configurations."""
_WHO = {"tpe": "Optuna's TPE", "gp": "Optuna's Gaussian process", "random": "chance"}


def together_sentences(answer: StudyAnswer) -> list[str]:
    """What each knob gave, which threads are best beside what, and where knobs interact."""
    found = answer.together
    if found is None:
        return []
    said = [*filter(None, [gains_sentence(answer)])]
    for dimension in dict.fromkeys(each.dimension for each in found.best_threads):
        best = [each for each in found.best_threads if each.dimension == dimension]
        said.append(_best_threads(answer, dimension, best))
    return [*said, *(_interaction(answer, each) for each in found.interactions)]


def gains_sentence(answer: StudyAnswer) -> str | None:
    """What each knob gave, the largest first; None where that is not known."""
    gains = sorted(answer.together.gains, key=lambda each: -each.gain) if answer.together else []
    gave = [
        f"{named_value(each.dimension, each.value)}{'' if place else ' made it'} about "
        f"{ratio_text(each.gain)} times{'' if place else f' as {fast(answer)}'}"
        for place, each in enumerate(gains)
    ]
    return f"{', '.join(gave)}." if gave else None


def _best_threads(answer: StudyAnswer, dimension: Dimension, found: Sequence[BestThreads]) -> str:
    """Which number is best beside what; or that none is shown to be."""
    parts = []
    if best := [f"{each.best} with {each.beside}{_near(answer, each)}" for each in found
                if each.is_shown]:  # fmt: skip
        parts.append(f"Best {dimension}: {', '.join(best)}.")
    if others := [each for each in found if not each.is_shown]:
        where = " or ".join(f"with {each.beside} ({each.best} looks best)" for each in others)
        parts.append(
            f"No {dimension} from {others[0].tried[0]} to {others[0].tried[-1]} is shown to be "
            f"the best {where}."
        )
    return " ".join(parts)


def _near(answer: StudyAnswer, found: BestThreads) -> str:
    """Which numbers are about as good, as a range where no value between them is worse."""
    if len(found.near) < 2:
        return ""
    first, last = (found.tried.index(found.near[end]) for end in (0, -1))
    is_range = last - first + 1 == len(found.near) > 2
    near = f"{found.near[0]} to {found.near[-1]}" if is_range else listed(map(str, found.near))
    return f" (within {epsilon(answer)}: {near})"


def _interaction(answer: StudyAnswer, found: Interaction) -> str:
    """How two numbers compare beside what: where they are alike first."""
    parts = []
    for beside, gain in sorted(found.gains, key=lambda each: abs(math.log(each[1]))):
        better, other = (found.value, found.other) if gain >= 1 else (found.other, found.value)
        ratio = max(gain, 1 / gain)
        times = f"{ratio_text(ratio)} times as {fast(answer)} as {other}"
        if ratio <= 1 + answer.plan.measuring.epsilon:
            better, times = found.other, f"about as {fast(answer)} as {found.value}"
        parts.append(f"With {beside}, {named_value(found.dimension, better)} is {times}.")
    return f"These knobs interact, as far as measured. {' '.join(parts)}"


def edge_sentences(answer: StudyAnswer) -> Iterator[str]:
    """A sentence per knob whose best value is the largest, or the smallest, of those tried.

    None where it is not shown to beat the next one, or where more threads are known not to help.
    """
    if answer.best is None or answer.verdict not in ("better", "keep-baseline"):
        return
    for dimension, values in answer.plan.space.axes:
        knob = KNOBS[dimension.knob]
        numbers = sorted(each for each in values if isinstance(each, int | float))
        chosen = answer.best.value_of(dimension, answer.plan.subject)
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
        which, larger = ("largest", "larger") if at_top else ("smallest", "smaller")
        wider = [*numbers, beyond] if at_top else [beyond, *numbers]
        yield (
            f"{named_value(dimension, chosen)} is the {which} value tried, and {gain}. To try "
            f"{larger} ones: --space {dimension}={','.join(map(knob.format, wider))}"
        )


def _beyond(knob: IntegerKnob | SecondsKnob, edge: float, *, at_top: bool) -> Value:
    """The next value outside of the space; None where the knob has none."""
    further: float = edge * 2 if at_top else edge / 2
    try:
        return knob.read(further if isinstance(knob, SecondsKnob) else int(further))
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
            if found is None or not (found.ratio.low > 1 and found.ratio.is_told):
                return None
            times = f"{ratio_text(found.ratio.estimate)} times as {fast(answer)}"
            value = KNOBS[dimension.knob].format(neighbour)
            return f"{times} as {value} ({ends(found.ratio)})"
    return None


def role_sentence(answer: StudyAnswer) -> str | None:
    """How to find out which of a few roles need the best value of the only knob; or None."""
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
        f"--space {named_value(each, value)},{knob.format(chosen)}"
        for each, value in zip(by_role, before, strict=True)
    )
    return (
        f"All roles had the same {knob.name}. Which one needs {knob.format(chosen)}? "
        f"{' '.join(flags)}"
    )


def not_reached_sentence(answer: StudyAnswer) -> str | None:
    """What the budget was too short for; None where it was enough for all."""
    left = answer.not_reached
    if not left:
        return None
    some = f"{len(left):,} of {plural(len(left) + len(answer.rows), 'configuration')}"
    return (
        f"Not reached in {duration(answer.elapsed_s)}: {some}, such as {left[0]}. Nothing is "
        "claimed of them."
    )


def forecast_alone_sentence(answer: StudyAnswer) -> str | None:
    """What the baseline's trace told of configurations that were not reached; None: nothing."""
    found = answer.forecasts_alone
    if len(found) > _MOST_FORECAST:
        ordered = sorted(found, key=lambda config: found[config].ratio or math.inf)
        found = {config: found[config] for config in ordered[:_MOST_FORECAST]}
    if not found:
        has_reason = answer.no_forecast and answer.not_reached
        return no_forecast_sentence(answer) if has_reason else None
    knob, names = short_names([answer.baseline, *found])
    gains = {names[each]: of.speedup for each, of in found.items() if of.speedup is not None}
    stuck = [names[each] for each, of in found.items() if of.speedup is None]
    said = []
    if gains:
        times = ", ".join(ratio_text(each.estimate) for each in gains.values())
        said.append(f"{with_knob(knob, gains)} would be {times} times as {fast(answer)}")
    if stuck:
        said.append(f"{with_knob(knob, stuck)} would deadlock")
    doubt = f" {no_forecast_sentence(answer)}" if answer.no_forecast else ""
    return f"Forecast, not measured: {', and '.join(said)}.{doubt}"


def no_forecast_sentence(answer: StudyAnswer) -> str:
    """Why the baseline's trace told nothing of other values, or of fewer threads."""
    which = "fewer" if answer.forecasts else "other numbers of"
    if NUM_WORKER_THREADS.name not in {each.knob for each in answer.plan.space.dimensions}:
        return f"No forecast of other switch intervals: {answer.no_forecast}."
    return f"No forecast of {which} threads: {answer.no_forecast}."


def tried_sentences(answer: StudyAnswer) -> list[str]:
    """How much of the space was tried, and what was left alone and why; none where it was all."""
    sampling = answer.sampling
    if sampling is None:
        return [*filter(None, [not_reached_sentence(answer), forecast_alone_sentence(answer)])]
    tried = len(answer.rows)
    on = "" if sampling.went_on is None else f", and the best {len(sampling.went_on)} were compared"
    first = (
        f"{tried:,} of {plural(sampling.configs, 'configuration')} were tried, as proposed by "
        f"{_WHO[sampling.sampler]}{on}. Nothing is claimed of the others."
    )
    return [first, *(f"{lesson}." for lesson in sampling.lessons)]


def bad_value_sentences(answer: StudyAnswer) -> list[str]:
    """Which values are clearly bad, where the grid was measured; a sampler's lessons say it too."""
    grid = grid_of(answer)
    if answer.sampling is not None or len(grid.values) < 2:
        return []
    sentences = []
    for (factor, level), found in bad_levels(grid.points, grid.logs).items():
        dimension, values = list(grid.values.items())[factor]
        times = f"{ratio_text(found.ratio.estimate)} times {faster_or_slower(answer)[1]}"
        sentences.append(
            f"{named_value(dimension, values[level])} is clearly bad: {times} than the best value, "
            f"at least {ratio_text(found.ratio.low)} ({plural(found.tried, 'configuration')})."
        )
    return sentences


def unmeasured_sentences(answer: StudyAnswer) -> list[str]:
    """Why configurations that did not fail are in no block, where the grid was measured."""
    labels: dict[str, list[str]] = {}
    for row in answer.rows:
        if row.eliminated and not row.samples:
            labels.setdefault(row.eliminated, []).append(row.label)
    if not labels or answer.sampling is not None:
        return []
    each = [f"{first_of(some, _MOST_NAMED)} ({reason})" for reason, some in labels.items()]
    more = sum(map(len, [*labels.values()][_MOST_NAMED:]))
    tail = [f"{more} more"] if more else []
    return [f"Left out: {'; '.join([*each[:_MOST_NAMED], *tail])}."]

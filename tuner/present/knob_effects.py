"""What each knob does to the objective: its main effect and its importance, as a table."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tuner.decide.additive import variance_shares
from tuner.decide.regions import Level, bad_levels, main_effects
from tuner.plan.config import Dimension, varying
from tuner.plan.knobs import KNOBS, Value
from tuner.study.answer import StudyAnswer
from tuner.study.evidence import points_among
from tuner.study.together import BestThreads, Interaction
from tuner.text import UNTOLD, listed, percent, plural, ratio_cell, ratio_text, whole_percent

# The levels of a grid are told exactly; where they cannot be told apart, the interval is endless.
_RIDGE = 1e-6
_OVERLAP = "; not all combinations were measured, so the shares overlap"


class EffectsTable(NamedTuple):
    """A row per value of each knob; the knob that explains most comes first."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str


class _Grid(NamedTuple):
    """The measured configurations as points, with their logarithms."""

    values: Mapping[Dimension, tuple[Value, ...]]
    points: list[tuple[int, ...]]
    logs: list[float]


def effects_table(answer: StudyAnswer) -> EffectsTable | None:
    """How the values of each knob compare, the others being equal; None for fewer than two knobs.

    It rests on the ratios of the configurations to the baseline, which are paired within blocks.
    """
    grid = _grid(answer)
    if len(grid.values) < 2 or len(grid.points) < 3:
        return None
    confidence = answer.plan.measuring.confidence
    effects = main_effects(grid.points, grid.logs, sure=(1 + confidence) / 2, ridge=_RIDGE)
    columns = zip(grid.values, zip(*grid.points, strict=True), strict=True)
    shares = variance_shares({str(each): levels for each, levels in columns}, grid.logs)
    by_name = {str(each): (each, levels) for each, levels in zip(grid.values, effects, strict=True)}
    rows = [
        _row(name, share, by_name[name][0], grid.values[by_name[name][0]][level], found)
        for name, share in shares.items()
        for level, found in sorted(by_name[name][1].items())
    ]
    how = "fast" if answer.objective.is_time else "good"
    note = (
        f"Against the best value: how many times as {how} as with the best value of this knob, the "
        f"other knobs being equal, with the {percent(confidence)} interval, from a fit in which "
        "knobs multiply. Explains: the share of the differences between the configurations that "
        f"the knob explains alone{_OVERLAP * (sum(shares.values()) > 1)}. ?: {UNTOLD}."
    )
    headings = ("knob", "explains", "value", "against the best value", "configurations")
    return EffectsTable(headings, rows, note)


def _row(
    name: str, share: float, dimension: Dimension, value: Value, found: Level
) -> tuple[str, ...]:
    cell = "1"
    if found.ratio != 1:
        low = found.least_ratio / found.ratio**2
        high = 1 / found.least_ratio if found.least_ratio else math.inf
        cell = ratio_cell(1 / found.ratio, low, high)
    return name, whole_percent(share), KNOBS[dimension.knob].format(value), cell, str(found.tried)


def bad_value_sentences(answer: StudyAnswer) -> list[str]:
    """Which values are clearly bad, where the grid was measured; a sampler's lessons say it too."""
    grid = _grid(answer)
    if answer.sampling is not None or len(grid.values) < 2:
        return []
    worse = "slower" if answer.objective.is_time else "worse"
    sentences = []
    for (factor, level), found in bad_levels(grid.points, grid.logs).items():
        dimension, values = list(grid.values.items())[factor]
        sentences.append(
            f"{dimension}={KNOBS[dimension.knob].format(values[level])} is clearly bad: "
            f"{ratio_text(found.ratio)} times {worse} than the best value of this knob in "
            f"{plural(found.tried, 'configuration')}, at least {ratio_text(found.least_ratio)}."
        )
    return sentences


def together_sentences(answer: StudyAnswer) -> list[str]:
    """What each knob gave, which number of threads is best beside what, and where knobs interact.

    None where the configurations differ in one knob, or too little was measured.
    """
    found = answer.together
    if found is None:
        return []
    told = sorted(found.gains, key=lambda each: -each.gain)
    gave = [f"{_named(each.dimension, each.value)} gave {ratio_text(each.gain)}" for each in told]
    said = (
        [f"{gave[0]} times{''.join(f', {each}' for each in gave[1:])} (as far as measured)."]
        if gave
        else []
    )
    dimensions = dict.fromkeys(each.dimension for each in found.best_threads)
    said += [
        _best_sentence(answer, [each for each in found.best_threads if each.dimension == one])
        for one in dimensions
    ]
    return [*said, *(_interaction_sentence(answer, each) for each in found.interactions)]


def _best_sentence(answer: StudyAnswer, found: Sequence[BestThreads]) -> str:
    """Which number is best beside what; or that none is shown to be."""
    shown = [each for each in found if each.is_shown]
    others = [each for each in found if not each.is_shown]
    parts = []
    if shown:
        best = (f"{each.best} with {each.beside}{_near(answer, each)}" for each in shown)
        parts.append(f"Best {shown[0].dimension}: {', '.join(best)}")
    if others:
        no = "no" if shown else "No"
        where = " or ".join(f"with {each.beside} ({each.best} looks best)" for each in others)
        parts.append(
            f"{no} {others[0].dimension} from {others[0].tried[0]} to {others[0].tried[-1]} is "
            f"shown to be better than all others {where}"
        )
    return f"{'; '.join(parts)}."


def _near(answer: StudyAnswer, found: BestThreads) -> str:
    """Which numbers are about as good, as a range where no value between them is worse."""
    if len(found.near) < 2:
        return ""
    first, last = (found.tried.index(found.near[end]) for end in (0, -1))
    is_range = last - first + 1 == len(found.near) > 2
    near = f"{found.near[0]} to {found.near[-1]}" if is_range else listed(map(str, found.near))
    return f" (within {percent(answer.plan.measuring.epsilon)}: {near})"


def _interaction_sentence(answer: StudyAnswer, found: Interaction) -> str:
    """How two numbers compare beside what: where they are alike first."""
    how = "fast" if answer.objective.is_time else "good"
    parts = []
    for beside, gain in sorted(found.gains, key=lambda each: abs(math.log(each[1]))):
        better, other, ratio = found.value, found.other, gain
        if ratio < 1:
            better, other, ratio = other, better, 1 / ratio
        times = f"{ratio_text(ratio)} times as {how} as {other}"
        if ratio <= 1 + answer.plan.measuring.epsilon:
            better, times = found.other, f"about as {how} as {found.value}"
        parts.append(f"with {beside}, {_named(found.dimension, better)} is {times}")
    return f"These knobs interact: {'; '.join(parts)} (as far as measured)."


def _named(dimension: Dimension, value: Value) -> str:
    return f"{dimension}={KNOBS[dimension.knob].format(value)}"


def _grid(answer: StudyAnswer) -> _Grid:
    levels = answer.levels
    rows = sorted((row for row in answer.rows if row.trial in levels), key=lambda row: row.trial)
    configs, subject = [row.config for row in rows], answer.plan.subject
    values = varying(configs, subject)
    points = points_among(values, configs, subject)
    return _Grid(values, points, [levels[row.trial] for row in rows])

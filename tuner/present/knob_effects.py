"""What each knob does to the objective: its main effect and its importance, as a table."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from tuner.decide.importance import variance_shares
from tuner.decide.regions import Level, bad_levels, main_effects
from tuner.plan.config import Dimension
from tuner.plan.dimensions import varying
from tuner.plan.knobs import KNOBS, Value
from tuner.study.answer import StudyAnswer
from tuner.text import UNTOLD, percent, plural, ratio_cell, ratio_text, whole_percent

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


def _grid(answer: StudyAnswer) -> _Grid:
    levels = answer.levels
    rows = sorted((row for row in answer.rows if row.trial in levels), key=lambda row: row.trial)
    configs, subject = [row.config for row in rows], answer.plan.subject
    values = varying(configs, subject)
    points = [
        tuple(values[each].index(config.value_of(each, subject)) for each in values)
        for config in configs
    ]
    return _Grid(values, points, [levels[row.trial] for row in rows])

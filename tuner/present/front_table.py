"""The Pareto front of two objectives, as a sentence and as a table."""

from typing import NamedTuple

from rich import box
from rich.table import Table

from tuner.plan.objectives import Objective
from tuner.present.tables import AGAINST_BASELINE
from tuner.study.answer import StudyAnswer
from tuner.study.front import Front, FrontPoint, Goal
from tuner.study.log import BASELINE
from tuner.text import UNTOLD, interval_text, percent, plural, ratio_cell, three_digits


class FrontTable(NamedTuple):
    """The configurations of the front, the best by the first objective first."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


def front_sentence(answer: StudyAnswer) -> str | None:
    """What is on the front, and which objective decides; None where there is one objective."""
    front = answer.front
    if front is None:
        return None
    first, second = front.first, front.second
    others = f"; {front.uncompared} more were measured too little" if front.uncompared else ""
    said = (
        f"The front of {first.label} and {second.label} has {len(front.trials)} of "
        f"{plural(len(front.points), 'configuration')}{others}: no other one is shown better in "
        f"one and at most {percent(answer.plan.measuring.epsilon)} worse in the other."
    )
    if answer.best_trial is not None and answer.best_trial not in front.trials:
        said += f" {answer.best}, which is recommended, is not among them."
    said += (
        f" What is recommended is decided by {first.name} alone; name {second.name} first to let "
        "that decide."
    )
    if answer.baseline_failed:
        return said
    said += (
        f" Against the baseline: how many times as good as {answer.baseline}, with the "
        f"{percent(answer.plan.measuring.confidence)} interval, from all blocks that "
        "measured both, those for the front included."
    )
    cells = [cell for each in front.points if each.in_front for cell in _row(answer, front, each)]
    return f"{said} ?: {UNTOLD}." if "?" in cells else said


def front_table(answer: StudyAnswer) -> FrontTable | None:
    """Both objectives of each configuration, and how they compare with the baseline's."""
    front = answer.front
    if front is None:
        return None
    confidence = percent(answer.plan.measuring.confidence)
    headings = ["configuration"]
    for objective in (front.first, front.second):
        headings += [objective.heading, f"{confidence} interval", AGAINST_BASELINE]
    rows = [_row(answer, front, point) for point in front.points if point.in_front]
    return FrontTable(tuple(headings), rows)


def front_for_terminal(answer: StudyAnswer) -> Table | None:
    """`front_table` for a terminal."""
    found = front_table(answer)
    if found is None:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Front", title_justify="left")
    for number, heading in enumerate(found.headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in found.rows:
        table.add_row(*row)
    return table


def _row(answer: StudyAnswer, front: Front, point: FrontPoint) -> tuple[str, ...]:
    marks = [
        name
        for name, trial in {"recommended": answer.best_trial, "baseline": 0}.items()
        if trial == point.trial
    ]
    label = f"{point.config} ({', '.join(marks)})" if marks else str(point.config)
    return (
        label,
        *_cells(front.first, point, point.first),
        *_cells(front.second, point, point.second),
    )


def _cells(objective: Objective, point: FrontPoint, goal: Goal) -> tuple[str, str, str]:
    """The value, its interval, and how many times as good as the baseline it is.

    The last is paired within blocks, `1.21 (1.16 to 1.25)`; nothing where too few blocks tell.
    """
    spread = "" if goal.spread is None else interval_text(goal.spread.low, goal.spread.high)
    ratio = "1" if point.trial == BASELINE else ""
    if goal.ratio is not None:
        gain = goal.ratio if objective.maximize else goal.ratio.inverse()
        ratio = ratio_cell(gain.estimate, gain.low, gain.high)
    return three_digits(goal.value), spread, ratio

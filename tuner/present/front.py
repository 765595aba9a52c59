"""The Pareto front of two objectives, as a sentence and as a table."""

from typing import NamedTuple

from rich import box
from rich.table import Table

from tuner.decide.statistics import Interval
from tuner.study.answer import StudyAnswer
from tuner.study.front import FrontPoint, Goal
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
    goals = [goal for each in front.points if each.in_front for goal in (each.first, each.second)]
    return f"{said} ?: {UNTOLD}." if "?" in [_ratio(goal.ratio) for goal in goals] else said


def front_table(answer: StudyAnswer) -> FrontTable | None:
    """Both objectives of each configuration, and how they compare with the baseline's."""
    front = answer.front
    if front is None:
        return None
    confidence = percent(answer.plan.measuring.confidence)
    headings = ["configuration"]
    for objective in (front.first, front.second):
        headings += [objective.heading, f"{confidence} interval", "x baseline"]
    rows = [_row(answer, point) for point in front.points if point.in_front]
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


def _row(answer: StudyAnswer, point: FrontPoint) -> tuple[str, ...]:
    marks = [
        name
        for name, trial in {"recommended": answer.best_trial, "baseline": 0}.items()
        if trial == point.trial
    ]
    label = f"{point.config} ({', '.join(marks)})" if marks else str(point.config)
    return label, *_cells(point.first), *_cells(point.second)


def _cells(goal: Goal) -> tuple[str, str, str]:
    spread = "" if goal.spread is None else interval_text(goal.spread.low, goal.spread.high)
    return three_digits(goal.value), spread, _ratio(goal.ratio)


def _ratio(found: Interval | None) -> str:
    """`0.83 (0.80 to 0.86)`: paired within blocks; nothing where too few blocks tell."""
    return "" if found is None else ratio_cell(found.estimate, found.low, found.high)

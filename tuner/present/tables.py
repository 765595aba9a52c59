"""The trials as a table: for a terminal, and as CSV."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from rich import box
from rich.table import Table

from tuner.files import written_atomically
from tuner.json_text import json_of
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.metrics import MetricCell, metric_cells
from tuner.study.trial_row import TrialRow
from tuner.text import UNTOLD, interval_text, percent, ratio_cell, three_digits

CSV_FORMAT = 2
AGAINST_BASELINE = "against the baseline"
"""The heading of how many times as fast, or as good, a configuration is."""


def write_trials_csv(trials: pd.DataFrame, path: Path) -> None:
    """Write `trials.csv`.

    Args:
        trials: The frame of `StudyAnswer.trials`; the file has its configurations as JSON.
        path: The file; its column `format` carries the file's version.
    """
    frame = trials.copy()
    frame["config"] = [json_of(config.to_json()).decode() for config in frame["config"]]
    frame.insert(0, "format", CSV_FORMAT)
    with written_atomically(path) as partial:
        frame.to_csv(partial, index=False)


class Column(NamedTuple):
    """A column of numbers: its heading in full, the heading folded for a terminal, its cells.

    A terminal has no room for a column without a folded heading.
    """

    heading: str
    folded: str | None
    cell: Callable[[TrialRow], str]


class TrialLine(NamedTuple):
    """One trial as a line of text cells."""

    row: TrialRow
    knobs: tuple[str, ...]
    numbers: tuple[str, ...]
    outcome: str
    is_best: bool


def knob_headings(answer: StudyAnswer) -> list[str]:
    """One per dimension that any configuration names."""
    return [str(dimension) for dimension in _dimensions(answer)]


def number_headings(answer: StudyAnswer) -> list[str]:
    """The headings of the numbers in `trial_lines`, in full."""
    return [column.heading for column in _number_columns(answer)]


def _number_columns(answer: StudyAnswer) -> list[Column]:
    """The objective, its interval, the worlds, and the metrics that tables show."""
    objective, confidence = answer.objective, percent(answer.plan.measuring.confidence)
    return [
        Column(
            objective.short_heading,
            objective.table_heading,
            lambda row: three_digits(row.value),
        ),
        Column(f"{confidence} interval", None, lambda row: interval_text(row.ci_low, row.ci_high)),
        *([_RATIO] if any(row.against_baseline for row in answer.rows) else []),
        Column("worlds", "worlds", lambda row: str(row.samples)),
        *(_metric_column(cell) for cell in metric_cells() if _is_shown(cell, answer)),
    ]


def _against_baseline(row: TrialRow) -> str:
    if row.against_baseline is None:
        return ""
    ratio = row.against_baseline.ratio
    return ratio_cell(ratio.estimate, ratio.low, ratio.high)


_RATIO = Column(AGAINST_BASELINE, "against the\nbaseline", _against_baseline)


def ratio_note(answer: StudyAnswer) -> str | None:
    """What the ratios of the table are; None where there are none."""
    cells = {_against_baseline(row) for row in answer.rows}
    if cells == {""}:
        return None
    confidence = percent(answer.plan.measuring.confidence)
    how = "fast" if answer.objective.is_time else "good"
    said = (
        f"Against the baseline: how many times as {how} as {answer.baseline}, with the "
        f"{confidence} interval, from the blocks that measured both."
    )
    return f"{said} ?: {UNTOLD}." if "?" in cells else said


def _is_shown(cell: MetricCell, answer: StudyAnswer) -> bool:
    """Whether it is for tables, and known of any trial: a program has no steps, for example."""
    if cell.table_heading is None:
        return False
    return not answer.rows or any(cell.text(row.metrics) for row in answer.rows)


def _metric_column(cell: MetricCell) -> Column:
    return Column(cell.heading, cell.table_heading or "", lambda row: cell.text(row.metrics))


def trial_lines(answer: StudyAnswer) -> list[TrialLine]:
    """The trials, the fastest first, with what became of each."""
    dimensions, columns = _dimensions(answer), _number_columns(answer)
    return [
        TrialLine(
            row=row,
            knobs=tuple(_value(row.config, dimension) for dimension in dimensions),
            numbers=tuple(column.cell(row) for column in columns),
            outcome=_outcome(answer, row),
            is_best=row.trial == answer.best_trial,
        )
        for row in answer.rows
    ]


def trials_table(answer: StudyAnswer) -> Table:
    """The trials, the fastest first: a column per tuned knob, the best and the baseline marked."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for dimension in _dimensions(answer):
        table.add_column(_folded(dimension), justify="right", overflow="fold")
    lines = trial_lines(answer)
    shown = [
        (place, column.folded)
        for place, column in enumerate(_number_columns(answer))
        if column.folded is not None
    ]
    for place, folded in shown:
        # Where the screen is narrow the knobs' names are folded, never the numbers.
        texts = [*folded.split("\n"), *(line.numbers[place] for line in lines)]
        table.add_column(folded, justify="right", no_wrap=True, min_width=max(map(len, texts)))
    table.add_column("outcome", min_width=12)
    for line in lines:
        style = "bold" if line.is_best else _style(line.row)
        numbers = [line.numbers[place] for place, _ in shown]
        table.add_row(*line.knobs, *numbers, line.outcome, style=style)
    return table


def _style(row: TrialRow) -> str | None:
    if row.failure is not None:
        return "red"
    return "yellow" if row.broken else None


def why_facts(answer: StudyAnswer) -> tuple[list[str], list[tuple[str, ...]]]:
    """What was traced of the baseline, and of the best or else the challenger.

    Returns:
        A heading per configuration, and rows that begin with a name; both empty where nothing was
        traced.
    """
    if not (rows := answer.why):
        return [], []
    facts: list[tuple[str, ...]] = [
        (cell.heading, *texts)
        for cell in metric_cells()
        if cell.traced and any(texts := [cell.text(row.metrics) for row in rows.values()])
    ]
    facts.append(("limit", *(row.diagnosis or "" for row in rows.values())))
    return [f"{contender}: {row.label}" for contender, row in rows.items()], facts


def why_table(answer: StudyAnswer) -> Table | None:
    """`why_facts` side by side; None where nothing was traced."""
    headings, facts = why_facts(answer)
    if not facts:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Why", title_justify="left")
    table.add_column("")
    for heading in headings:
        table.add_column(heading, ratio=1, overflow="fold")
    for fact in facts:
        table.add_row(*fact)
    return table


def _dimensions(answer: StudyAnswer) -> list[Dimension]:
    every = [dimension for row in answer.rows for dimension in row.config.values]
    return list(dict.fromkeys(every))


def _folded(dimension: Dimension) -> str:
    """`num_worker_threads` as three lines: tables are narrow."""
    return str(dimension).replace("_", "_\n")


def _value(config: Config, dimension: Dimension) -> str:
    values = config.values
    if dimension not in values:
        return "-"
    return KNOBS[dimension.knob].format(values[dimension])


def _outcome(answer: StudyAnswer, row: TrialRow) -> str:
    marks = []
    if row.trial == answer.best_trial:
        marks.append("best" if answer.verdict in ("better", "tie") else "kept")
    elif row.tied_with_best:
        marks.append("tied")
    if row.broken:
        marks.insert(0, f"infeasible: {row.broken_text}")
    elif row.outcome != "completed" or not (marks or row.trial == BASELINE):
        marks.insert(0, row.outcome)
    if row.trial == BASELINE:
        marks.append("baseline")
    return ", ".join(marks)

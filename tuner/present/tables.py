"""The trials as a table: for a terminal, and as CSV."""

from collections.abc import Callable
from pathlib import Path
from textwrap import fill
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
from tuner.study.rows import TrialRow
from tuner.text import MOST_RATIO, UNTOLD, interval_text, percent, ratio_cell, three_digits

CSV_FORMAT = 2
_FACT, _HEADING = 14, 29
"""Letters of a fact's name in a line, and of a heading's word that is not broken: two of them have
room on 80 columns."""
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
    is_metric: bool = False


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
        *([_ratio_column(answer)] if any(row.against_baseline for row in answer.rows) else []),
        Column("worlds", "worlds", lambda row: str(row.samples)),
        *(_metric_column(cell) for cell in metric_cells() if _is_shown(cell, answer)),
    ]


def _ratio_column(answer: StudyAnswer) -> Column:
    return Column(
        AGAINST_BASELINE, "against the\nbaseline", lambda row: _against_baseline(answer, row)
    )


def _against_baseline(answer: StudyAnswer, row: TrialRow) -> str:
    if row.against_baseline is None:
        return ""
    ratio, blocks = row.against_baseline
    better, worse = ("faster", "slower") if answer.objective.is_time else ("better", "worse")
    far = f"much {worse if ratio.estimate < 1 else better}"
    if _is_far_off(row):
        return f"{far}, {_TIMES[blocks]}"
    if not ratio.is_told and not (ratio.high >= 1 / _MUCH and ratio.low <= _MUCH):
        return far
    return ratio_cell(ratio.estimate, ratio.low, ratio.high)


_MUCH = 2.0
"""An interval that is too wide for a number says something where all of it is beyond this."""
_TIMES = {1: "once", 2: "twice"}
"""In how many blocks something was seen that too few blocks tell an interval of."""


def _is_far_off(row: TrialRow) -> bool:
    """Whether a row is so far from the baseline that the few blocks it has are worth a word."""
    if row.against_baseline is None or row.against_baseline.blocks not in _TIMES:
        return False
    ratio = row.against_baseline.ratio
    return not ratio.is_told and not 1 / MOST_RATIO <= ratio.estimate <= MOST_RATIO


def _far_off_note(answer: StudyAnswer) -> str:
    """What the worlds of those rows showed that have no interval; empty where there are none."""
    far_off = [row for row in answer.rows if _is_far_off(row)]
    if not far_off:
        return ""
    baseline = answer.by_trial[BASELINE]
    seen = [f"{row.label} {_seen(answer, row)}" for row in [*far_off, baseline]]
    return f" Too few blocks for an interval, but seen: {'; '.join(seen)} (the baseline)."


def _seen(answer: StudyAnswer, row: TrialRow) -> str:
    """`had 1660 ms (steps 1650 to 1670)`: what its worlds alone show, and no claim."""
    value = f"had {three_digits(row.value)} {answer.objective.unit}".rstrip()
    steps = answer.details[row.trial].step_ms if row.trial in answer.details else None
    if steps is None or answer.objective.name != "step_ms":
        return value
    return f"{value} (steps {three_digits(steps.p5)} to {three_digits(steps.p95)})"


def ratio_note(answer: StudyAnswer) -> str | None:
    """What the ratios of the table are; None where there are none."""
    cells = {_against_baseline(answer, row) for row in answer.rows}
    if cells == {""}:
        return None
    confidence = percent(answer.plan.measuring.confidence)
    how = "fast" if answer.objective.is_time else "good"
    said = (
        f"Against the baseline: how many times as {how} as {answer.baseline}, with the "
        f"{confidence} interval, from the blocks that measured both."
    )
    unknown = f" ?: {UNTOLD}." if "?" in cells else ""
    return f"{said}{unknown}{_far_off_note(answer)}"


def _is_shown(cell: MetricCell, answer: StudyAnswer) -> bool:
    """Whether it is for tables, and known of any trial: a program has no steps, for example."""
    if cell.table_heading is None:
        return False
    return not answer.rows or any(cell.text(row.metrics) for row in answer.rows)


def _metric_column(cell: MetricCell) -> Column:
    return Column(
        cell.heading,
        cell.table_heading or "",
        lambda row: cell.text(row.metrics),
        is_metric=True,
    )


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


def spare_columns(answer: StudyAnswer) -> list[int]:
    """The columns of `trials_table` that a narrow screen can do without: those of metrics."""
    first = len(_dimensions(answer))
    shown = enumerate(_columns_shown(answer).values(), first)
    return [place for place, column in shown if column.is_metric]


def _columns_shown(answer: StudyAnswer) -> dict[int, Column]:
    """The numbers that a terminal has room for, by their places in a line."""
    columns = enumerate(_number_columns(answer))
    return {place: column for place, column in columns if column.folded is not None}


def trials_table(answer: StudyAnswer) -> Table:
    """The trials, the fastest first: a column per tuned knob, the best and the baseline marked."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for dimension in _dimensions(answer):
        table.add_column(_folded(dimension), justify="right", overflow="fold")
    lines = trial_lines(answer)
    shown = _columns_shown(answer)
    for place, column in shown.items():
        folded = column.folded or ""
        # Where the screen is narrow the knobs' names are folded, never the numbers.
        texts = [*folded.split("\n"), *(line.numbers[place] for line in lines)]
        table.add_column(folded, justify="right", no_wrap=True, min_width=max(map(len, texts)))
    words = [word for line in lines for word in line.outcome.split()]
    table.add_column("outcome", min_width=max(map(len, words), default=0))
    for line in lines:
        style = "bold" if line.is_best else _style(line.row)
        numbers = [line.numbers[place] for place in shown]
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
        # The name of a knob is not broken, if the screen has room.
        longest = max(map(len, heading.split()))
        table.add_column(heading, ratio=1, overflow="fold", min_width=min(longest, _HEADING))
    for name, *texts in facts:
        table.add_row(fill(name, _FACT), *texts)
    return table


def _dimensions(answer: StudyAnswer) -> list[Dimension]:
    every = [dimension for row in answer.rows for dimension in row.config.values]
    return list(dict.fromkeys(every))


def _folded(dimension: Dimension) -> str:
    """`ps.num_worker_threads` as four lines: tables are narrow."""
    return str(dimension).replace(".", ".\n").replace("_", "_\n")


def _value(config: Config, dimension: Dimension) -> str:
    values = config.values
    if dimension not in values:
        return "-"
    return KNOBS[dimension.knob].format(values[dimension])


_UNMARKED = ("completed", "not-measured")
"""The outcomes that are not said of the best or the baseline: no block may have been needed."""


def _outcome(answer: StudyAnswer, row: TrialRow) -> str:
    marks = []
    if row.trial == answer.best_trial:
        marks.append("best" if answer.verdict in ("better", "tie") else "kept")
    elif row.tied_with_best and not answer.interrupted:
        marks.append("tied")
    if row.broken:
        marks.insert(0, f"infeasible: {row.broken_text}")
    elif row.outcome not in _UNMARKED or not (marks or row.trial == BASELINE):
        unfinished = answer.interrupted and row.outcome == "completed"
        marks.insert(0, "measured so far" if unfinished else row.outcome)
    if row.trial == BASELINE:
        marks.append("baseline")
    if row.fails_sometimes:
        marks.append(f"{row.worlds_failed} of {row.worlds_run} failed")
    return ", ".join(marks)

"""The trials as a table: for a terminal, and as CSV."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import orjson
import pandas as pd
from rich import box
from rich.table import Table

from tuner.files import written_atomically
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS
from tuner.study.answer import StudyAnswer, TrialRow
from tuner.text import interval_text, three_digits

CSV_FORMAT = 2


def write_trials_csv(trials: pd.DataFrame, path: Path) -> None:
    """Write the trials, settings as JSON; the column `format` carries the file's version."""
    frame = trials.copy()
    frame["config"] = [orjson.dumps(config).decode() for config in frame["config"]]
    frame.insert(0, "format", CSV_FORMAT)
    with written_atomically(path) as partial:
        frame.to_csv(partial, index=False)


class Heading(NamedTuple):
    """What a column holds: in full, and folded for the width of a terminal."""

    full: str
    folded: str


class TrialLine(NamedTuple):
    """One settings as a line of text cells."""

    row: TrialRow
    knobs: tuple[str, ...]
    numbers: tuple[str, ...]
    outcome: str
    is_best: bool


def knob_headings(result: StudyAnswer) -> list[Heading]:
    """One per knob that any settings name."""
    return [Heading(str(dimension), _folded(dimension)) for dimension in _dimensions(result)]


def number_headings(result: StudyAnswer) -> list[Heading]:
    """The columns of numbers; those from traces say what a call takes and how many ran at once."""
    objective, confidence = result.objective, f"{result.plan.measuring.confidence * 100:g} %"
    short = objective.name.removesuffix("_ms")
    return [
        Heading(f"{objective.label} ({objective.unit})", f"{short}\n({objective.unit})"),
        Heading(f"{confidence} interval", f"{confidence}\ninterval"),
        Heading("worlds", "worlds"),
        Heading("CPU cores", "CPU\ncores"),
        Heading("RPC CPU total per step (ms)", "RPC\n(ms)"),
        Heading("calls served at once, mean/max", "at\nonce"),
    ]


def trial_lines(result: StudyAnswer) -> list[TrialLine]:
    """The trials sorted by result, the best and the baseline marked."""
    dimensions, lines = _dimensions(result), []
    for row in result.rows:
        config = Config.from_json(row.config)
        is_best = row.label == str(result.best)
        numbers = (
            three_digits(row.value),
            interval_text(row.ci_low, row.ci_high),
            str(row.samples),
            three_digits(row.cpu_cores),
            three_digits(row.rpc_cpu_total_ms),
            _at_once(row),
        )
        knobs = tuple(_value(config, dimension) for dimension in dimensions)
        lines.append(TrialLine(row, knobs, numbers, _outcome(result, row, is_best), is_best))
    return lines


def trials_table(result: StudyAnswer) -> Table:
    """The trials sorted by result: a column per tuned knob, the best and the baseline marked."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in knob_headings(result):
        table.add_column(heading.folded, justify="right", overflow="fold")
    # Where the screen is narrow the knobs' names are folded, never the numbers.
    for heading, min_width in zip(number_headings(result), (6, 9, 6, 5, 5, 5), strict=True):
        table.add_column(heading.folded, justify="right", no_wrap=True, min_width=min_width)
    table.add_column("outcome", min_width=12)
    for line in trial_lines(result):
        style = "bold" if line.is_best else "red" if line.row.failure is not None else None
        table.add_row(*line.knobs, *line.numbers, line.outcome, style=style)
    return table


def why_facts(result: StudyAnswer) -> tuple[list[str], list[tuple[str, ...]]]:
    """What was traced of the baseline and of the winner: headings, and rows that begin with a name.

    Both are empty where nothing was traced.
    """
    if not (rows := result.why):
        return [], []
    facts: list[tuple[str, Callable[[TrialRow], str]]] = [
        ("RPC CPU total, ms per step", lambda row: three_digits(row.rpc_cpu_total_ms)),
        ("calls served at once, mean/max", _at_once),
        ("traced / untraced step time", lambda row: three_digits(row.tracing_overhead)),
        ("limit", lambda row: row.diagnosis or ""),
    ]
    headings = [f"{role}: {row.label}" for role, row in rows.items()]
    return headings, [(name, *(of(row) for row in rows.values())) for name, of in facts]


def why_table(result: StudyAnswer) -> Table | None:
    """What was traced of the baseline and of the winner, side by side; None if nothing was."""
    headings, facts = why_facts(result)
    if not facts:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Why", title_justify="left")
    table.add_column("")
    for heading in headings:
        table.add_column(heading, ratio=1, overflow="fold")
    for fact in facts:
        table.add_row(*fact)
    return table


def failure_lines(result: StudyAnswer) -> list[str]:
    """One line per settings that failed, with the reason."""
    return [f"{row.label}: {row.outcome}: {row.failure}" for row in result.rows if row.failure]


def _dimensions(result: StudyAnswer) -> list[Dimension]:
    every = [Config.from_json(row.config).values for row in result.rows]
    return list(dict.fromkeys(dimension for values in every for dimension in values))


def _folded(dimension: Dimension) -> str:
    """`num_worker_threads` as two lines: tables are narrow."""
    first, underscore, last = str(dimension).rpartition("_")
    return f"{first}_\n{last}" if underscore else last


def _value(config: Config, dimension: Dimension) -> str:
    values = config.values
    if dimension not in values:
        return "-"
    return KNOBS[dimension.knob].format(values[dimension])


def _at_once(row: TrialRow) -> str:
    """Calls served at once while any was: `3.9/4`."""
    if math.isnan(row.parallelism_mean):
        return ""
    return f"{row.parallelism_mean:.1f}/{row.parallelism_max:.0f}"


def _outcome(result: StudyAnswer, row: TrialRow, is_best: bool) -> str:
    marks = []
    if is_best:
        marks.append("best" if result.verdict in ("better", "tie") else "kept")
    elif row.tied_with_best:
        marks.append("tied")
    if row.outcome != "completed" or not (marks or row.label == str(result.baseline)):
        marks.insert(0, row.outcome)
    if row.label == str(result.baseline):
        marks.append("baseline")
    return ", ".join(marks)
